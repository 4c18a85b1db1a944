"""Sequences of real vectors: tokens are mapped to the line, and identified by the memoriser for real inputs.

Step 1: an integer direction is drawn that keeps the tokens that matter (the distinguishing ones) apart from all others;
        a power of two then makes every such gap 2 or more. Floats are dyadic, so nothing is rounded.
Step 2: F1 gives the distinguishing tokens their values and all others 0 (`rote.solvers.exact.near`).
Step 3: as for tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.data._arrays import IntArray
from rote.errors import AssumptionError
from rote.solvers.exact.identify import distinguishing, draw_values
from rote.solvers.exact.memorise import Made, behind_mean, label_network
from rote.solvers.exact.near import memorise_near
from rote.solvers.exact.network import ONE, Weight
from rote.solvers.exact.transformer import ExactTransformer, Variant

__all__ = ["memorise_vectors"]

_TRIES = 20
_MOST_BITS = 58


@dataclass(frozen=True)
class _Line:
    """x = sum_i weights_i v_i + shift, and where it puts the tokens, rounded."""

    weights: list[Fraction]
    shift: Fraction
    keys: IntArray
    """Of the distinguishing tokens."""
    top: int


def memorise_vectors(
    sequences: npt.NDArray[np.float64],
    labels: IntArray,
    n_labels: int,
    *,
    variant: Variant,
    rng: np.random.Generator,
) -> Made:
    """One label for each of the sequences (T, n, d), which differ as bags of vectors."""
    t, n, d = sequences.shape
    tokens, index = np.unique(sequences.reshape(t * n, d), axis=0, return_inverse=True)
    numbers = index.reshape(t, n)
    kept = distinguishing(numbers)
    line = _line(tokens, kept, rng)
    values, ids, below = draw_values(numbers, len(tokens), kept, rng)
    inputs = tuple(f"v{i}" for i in range(d))
    project: dict[str, Weight] = {**dict(zip(inputs, line.weights, strict=True)), ONE: line.shift}
    first = memorise_near(line.keys, values[kept], below, top=line.top, inputs=inputs, project=project)
    largest = n * (below - 1)
    made, shape, report = label_network(ids, labels, n_labels, largest, "exact", variant)
    second = behind_mean(made, n, token=False)
    found: dict[str, Any] = {
        "identify": "near",
        "distinguishing_tokens": len(kept),
        "distinct_tokens": len(tokens),
        "sum_bits": largest.bit_length(),
        "params_first": first.params,
        "params_second": second.params,
        **report,
    }
    classes = tuple(range(n_labels))
    model = ExactTransformer(
        "next_token", first, second, n, n, max(2, n_labels), classes, variant=variant, d_in=d, shape=shape
    )
    return Made(model, found)


def _line(tokens: npt.NDArray[np.float64], kept: IntArray, rng: np.random.Generator) -> _Line:
    """The direction with the smallest range for its smallest gap, of a few that are drawn."""
    whole, shift = _integers(tokens)
    best: tuple[Fraction, npt.NDArray[Any], npt.NDArray[Any]] | None = None
    for _ in range(_TRIES):
        direction = np.asarray(rng.integers(-1023, 1024, size=tokens.shape[1]))
        place: npt.NDArray[Any] = whole @ direction.astype(object)
        gap = _smallest_gap(place, kept)
        if gap:
            spread = Fraction(int(max(place) - min(place)), gap)
            if best is None or spread < best[0]:
                best = (spread, direction, place)
    if best is None:
        raise AssumptionError(
            "no direction tells the vectors apart: some are equal up to rounding; drop or merge them."
        )
    _, direction, place = best
    low, gap = int(min(place)), _smallest_gap(place, kept)
    # The smallest power of two that makes every gap at least 2; it may be a fraction.
    power = 2 - gap.bit_length()
    while gap * Fraction(2) ** power < 2:
        power += 1
    scale = Fraction(2) ** power
    top = int((int(max(place)) - low) * scale) + 1
    if top.bit_length() > _MOST_BITS:
        raise AssumptionError(
            f"the tokens that tell sequences apart are too close for their size: a line keeps them apart only with "
            f"{top.bit_length()} bits, more than {_MOST_BITS}; round or scale the vectors, or drop near duplicates."
        )
    keys = np.array([round((int(place[i]) - low) * scale) for i in kept], dtype=np.int64)
    weights = [int(a) * scale * (1 << shift) for a in direction]
    return _Line(weights, -low * scale, keys, top)


def _integers(tokens: npt.NDArray[np.float64]) -> tuple[npt.NDArray[Any], int]:
    """Tokens times 2^shift, as integers."""
    ratios = [float(x).as_integer_ratio() for x in tokens.reshape(-1)]
    shift = max(q.bit_length() - 1 for _, q in ratios)
    made = np.empty(len(ratios), dtype=object)
    made[:] = [p << (shift - (q.bit_length() - 1)) for p, q in ratios]
    return made.reshape(tokens.shape), shift


def _smallest_gap(place: npt.NDArray[Any], kept: IntArray) -> int:
    """The smallest distance between a distinguishing token and any other."""
    order = np.argsort(place, kind="stable")
    ordered = place[order]
    if len(ordered) == 1:
        return 1
    chosen = np.zeros(len(place), dtype=bool)
    chosen[kept] = True
    matters = chosen[order][1:] | chosen[order][:-1]
    return int(min(np.diff(ordered)[matters]))
