"""Sequences in, exact transformer out: identify every sequence by a sum, and give the sum its label.

Step 1: numbers for tokens (`identify`), so that the sums of all sequences differ; F1 computes them.
Step 2: uniform attention hands the mean to every position; one neuron multiplies it by n.
Step 3: F2 is a memoriser on the line whose keys are the sums (for a label per position: sum * V + token).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from rote.data._arrays import IntArray
from rote.errors import CapacityError, UsageError
from rote.solvers.exact.digits import DigitShape, memorise_digits
from rote.solvers.exact.identify import Identity, identify
from rote.solvers.exact.network import Assembler, Layer, Network, Row
from rote.solvers.exact.slots import largest_key, memorise_slots
from rote.solvers.exact.transformer import UNKNOWN, ExactTransformer, Precision, Task, Variant

__all__ = ["Made", "behind_mean", "check_variant", "label_network", "memorise_sequences", "with_carry"]


_FRACTION_BITS = {"exact": 58, "float64": 50, "float32": 21}


@dataclass(frozen=True)
class Made:
    """A transformer, and what is worth knowing about it, in plain values."""

    transformer: ExactTransformer
    report: dict[str, Any]


def check_variant(variant: str | None, precision: Precision) -> Variant:
    """The memoriser that is asked for (A, B or C); A in exact arithmetic and B in floats if none is."""
    if variant is None:
        return "A" if precision == "exact" else "B"
    if precision != "exact" and variant != "B":
        raise UsageError(f"variant {variant} needs weights of hundreds of bits; use exact weights, or variant B.")
    return cast(Variant, variant)


@dataclass(frozen=True)
class _Input:
    """Contexts as numbers, and how F1 reads a number from (token) or (token, position)."""

    numbers: IntArray
    n_numbers: int
    inputs: tuple[str, ...]
    reader: Row
    seen: int


def _input(contexts: IntArray, vocab: int, precision: Precision, with_positions: bool) -> _Input:
    t, n = contexts.shape
    seen = n if precision == "exact" else 1 << (n - 1).bit_length()
    rows = np.concatenate([np.full((t, seen - n), vocab, dtype=np.int64), contexts], axis=1)
    n_tokens = vocab + (1 if seen > n else 0)
    if not with_positions:
        return _Input(rows, n_tokens, ("x",), {"x": 1}, seen)
    rows = rows + n_tokens * np.arange(seen)
    return _Input(rows, n_tokens * seen, ("x", "position"), {"x": 1, "position": n_tokens}, seen)


def memorise_sequences(
    contexts: IntArray,
    labels: IntArray,
    n_labels: int,
    vocab: int,
    label_ids: tuple[int, ...],
    *,
    precision: Precision,
    variant: Variant,
    with_positions: bool,
    rng: np.random.Generator,
    unknown: int = 0,
) -> Made:
    """One label a sequence (T,), or one a position (T, n); all contexts differ as bags of tokens (at positions).

    With a label for every position equal tokens of one sequence have equal labels. With `unknown`, for variant A, label
    0 says that a sequence is none of these, and others get it but for a share of about 2^-unknown.
    """
    given = _input(contexts, vocab, precision, with_positions)
    task: Task = "next_token" if labels.ndim == 1 else "seq2seq"
    found = _identified(given, precision, rng, task, len(contexts), unknown)
    if unknown:
        assert variant == "A", "only variant A is 0 at numbers that are no keys"
        labels, n_labels, label_ids = labels + 1, n_labels + 1, (UNKNOWN, *label_ids)
    first, keys, largest, factor = found.network, found.ids, found.largest, given.seen
    if task == "seq2seq":
        own = given.numbers[:, given.seen - contexts.shape[1] :]
        keys, at = np.unique((keys[:, None] * given.n_numbers + own).reshape(-1), return_index=True)
        labels, largest = labels.reshape(-1)[at], largest * given.n_numbers + given.n_numbers - 1
        columns = {name: i for i, name in enumerate(given.inputs)}
        first = with_carry(first, {columns[name]: int(w) for name, w in given.reader.items()})
        factor *= given.n_numbers
    line, shape, report = label_network(keys, labels, n_labels, largest, precision, variant)
    second = behind_mean(line, factor, token=task == "seq2seq")
    model = ExactTransformer(
        task, first, second, contexts.shape[1], given.seen, vocab, label_ids, precision, variant, with_positions,
        shape=shape,
    )  # fmt: skip
    return Made(model, _report(found, second, report) | ({"n_pairs": len(keys)} if task == "seq2seq" else {}))


def behind_mean(line: Network, factor: int, *, token: bool) -> Network:
    """A memoriser on the line whose key is the mean times a factor, and the token on top if it is passed on."""
    front = Assembler(["mean", "token"] if token else ["mean"])
    front.layer({"x": {"mean": factor, "token": 1} if token else {"mean": factor}})
    return Network(front.network().layers + line.layers)


def _report(found: Identity, second: Network, report: dict[str, Any]) -> dict[str, Any]:
    return {
        "identify": found.how,
        "distinguishing_tokens": found.n_kept,
        "sum_bits": found.largest.bit_length(),
        "params_first": found.network.params,
        "params_second": second.params,
        **report,
    }


def _identified(
    given: _Input, precision: Precision, rng: np.random.Generator, task: Task, n_facts: int, unknown: int
) -> Identity:
    limit = None if precision == "exact" else largest_key(precision)
    if task == "seq2seq":
        limit = ((1 << 61) if limit is None else limit) // given.n_numbers
    found = identify(
        given.numbers,
        given.n_numbers,
        rng=rng,
        reader=given.reader,
        inputs=given.inputs,
        fraction_bits=_FRACTION_BITS[precision],
        floats=precision != "exact",
        limit=limit,
        apart=unknown,
    )
    if found is None and unknown:
        raise CapacityError(
            f"{unknown} bits to tell other contexts from {n_facts:,} facts make sums of more than 61 bits; ask for "
            "fewer bits of unknown."
        )
    if found is None:
        other = "float64 or exact" if precision == "float32" else "exact"
        advice = f"use {other} weights" if precision != "exact" else "shorten the sequences"
        raise CapacityError(
            f"{n_facts:,} sequences cannot be told apart by sums that {precision} holds exactly; {advice}."
        )
    return found


def label_network(
    keys: IntArray, labels: IntArray, n_labels: int, largest: int, precision: Precision, variant: Variant
) -> tuple[Network, DigitShape | None, dict[str, Any]]:
    """The memoriser on the line; `largest` bounds its input."""
    if variant == "A":
        digits = memorise_digits(keys, labels, n_labels, top=largest)
        shape = digits.shape
        return digits.network, shape, {"groups": digits.n_groups, "items": shape.items, "digit_bits": shape.bits}
    if variant == "B":
        slots = memorise_slots(keys, labels, n_labels, precision="float64" if precision == "exact" else precision)
        return slots.network, None, {"groups": slots.n_groups, "slots": slots.slots}
    from rote.solvers.exact.blocks import memorise_blocks

    blocks = memorise_blocks(keys, labels, n_labels)
    return blocks.network, None, {"blocks": blocks.n_blocks, "groups": blocks.n_groups}


def with_carry(network: Network, reader: dict[int, int]) -> Network:
    """The same network with one more output: what `reader` makes of the inputs, carried past every layer."""
    layers = []
    for at, layer in enumerate(network.layers):
        columns = reader if at == 0 else {layer.n_in: 1}
        layers.append(
            Layer(
                layer.n_in + (0 if at == 0 else 1),
                layer.n_out + 1,
                layer.relu,
                np.concatenate([layer.rows, np.full(len(columns), layer.n_out)]),
                np.concatenate([layer.cols, np.array(list(columns), dtype=np.int64)]),
                layer.numerators + tuple(columns.values()),
                np.concatenate([layer.shifts, np.zeros(len(columns), dtype=np.int64)]),
            )
        )
    return Network(tuple(layers))
