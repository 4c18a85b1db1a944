"""Do sums of outer products of these keys and values answer right, and by what margin? (Hebbian MLPs, 2026)

A Hebbian memory is the matrix M = sum_i v_i k_i^T. Asked with key i it scores value l by v_l . M k_i, that is entry
(l, i) of G K, with G and K the Gram matrices of values and keys, so the margin of every fact is computed, not bounded:
its own score minus the largest score of a different value. Beside it stand the quantities of the theorem: the signal
min K (1 - mu), with mu the largest cosine of two different values, the interference E, the largest sum over a column of
K of its squared entries off the diagonal, and the bound itself for isotropic values,
min K (1 - mu) - 2 sqrt(2) sqrt(E ln(T^2 / delta) / d), one head, d the width of the values, delta = 0.01.

Values are for this check alone: a tensor `values` (T x d_v) beside `queries`, which are the keys.
"""

from __future__ import annotations

import math

import numpy as np

from rote.assumptions._finding import Finding
from rote.assumptions._vectors import Vectors

__all__ = ["CHECKS", "NAME", "THEOREMS", "check"]

NAME = "Hebbian margin"
THEOREMS = ("hebbian2026",)
_CHANCE = 0.01
_MOST = 8192
"""Facts up to which all scores are computed: their square is kept."""


def check(data: Vectors, d_model: int | None, *, rng: np.random.Generator) -> list[Finding]:
    """The smallest margin over all facts; nothing is said of data without values."""
    values = data.values
    if values is None:
        return []
    count = data.n_facts
    if count > _MOST:
        said = f"{count:,} facts have {count:,}^2 scores, and only {_MOST:,}^2 are computed; give fewer."
        return [Finding(NAME, None, said, theorems=THEOREMS)]
    _, same = np.unique(values, axis=0, return_inverse=True)
    same = same.reshape(-1)
    if same.max() == 0:
        return [Finding(NAME, True, "there is one value only, so no other can be ahead.", theorems=THEOREMS)]
    keys, gram = data.queries @ data.queries.T, values @ values.T
    scores = gram @ keys
    own = scores.diagonal()
    other = np.where(same[:, None] == same[None, :], -np.inf, scores).max(0)
    margins = own - other
    worst = int(margins.argmin())
    rival = int(np.where(same == same[worst], -np.inf, scores[:, worst]).argmax())
    size = np.sqrt(np.maximum(gram.diagonal(), 1e-300))
    coherence = float(np.where(same[:, None] == same[None, :], -1.0, gram / np.outer(size, size)).max())
    least = float(keys.diagonal().min())
    crossed = float(((keys**2).sum(0) - keys.diagonal() ** 2).max())
    bound = least * (1 - coherence) - math.sqrt(8 * crossed * math.log(count**2 / _CHANCE) / values.shape[1])
    blur = 8 * count * float(np.abs(scores).max()) * max(data.query_roundoff, 2.0**-53)
    smallest = float(margins[worst])
    holds = True if smallest > blur else False if smallest < -blur else None
    wrong = int((margins < 0).sum())
    said = (
        f"the sum of outer products answers {count - wrong:,} of {count:,} keys right; the smallest margin is "
        f"{smallest:.4g}, of key {worst + 1:,} against the value of key {rival + 1:,}. Signal min K (1 - mu) = "
        f"{least * (1 - coherence):.4g} (mu {coherence:.3g}), interference E = {crossed:.4g}; the bound for isotropic "
        f"values is {bound:.4g}"
    )
    said += "." if bound > 0 else ", which promises nothing."
    offenders = [int(i) for i in np.flatnonzero(margins < 0)[:10]]
    return [
        Finding(
            assumption=NAME,
            holds=holds,
            explanation=said,
            lower=smallest,
            upper=smallest,
            witness=[worst, rival],
            offenders=offenders,
            n_offenders=wrong,
            theorems=THEOREMS,
            detail={"signal": least * (1 - coherence), "coherence": coherence, "interference": crossed, "bound": bound},
        )
    ]


CHECKS = {"vectors": check}
