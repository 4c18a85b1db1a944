"""How much of their contexts examples share: from 0 (all own) to 1 (one context for all).

The rank of the head outputs depends on it: with one shared context of n vectors it is at most H(n - 1) + 1 (Mahdavi et
al. 2024), with contexts of their own up to H d. The share is the average over all pairs of examples of the part of a
context that the other has too, counted as multisets of tokens; it is computed exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rote.assumptions._common import Data, row_ids
from rote.assumptions._finding import Finding

__all__ = ["CHECKS", "NAME", "THEOREMS", "check", "overlap"]

NAME = "context overlap"
THEOREMS = ("mahdavi2024_shared_upper",)


def overlap(keys: npt.NDArray[np.int64]) -> float:
    """The average over pairs of rows of |multiset intersection| / n, for integer rows (T x n)."""
    count, n = keys.shape
    if count < 2:
        return 1.0
    # The m-th occurrence of a token in a context is one item; contexts share as many items as their intersection has.
    ordered = np.sort(keys, axis=1)
    place = np.arange(n)
    new = np.concatenate([np.ones((count, 1), dtype=bool), ordered[:, 1:] != ordered[:, :-1]], axis=1)
    occurrence = place - np.maximum.accumulate(np.where(new, place, 0), axis=1)
    items = ordered.reshape(-1) * n + occurrence.reshape(-1)
    owners = np.unique(items, return_counts=True)[1].astype(np.float64)
    return float((owners * (owners - 1)).sum() / (count * (count - 1) * n))


def check(data: Data, d_model: int | None, *, rng: np.random.Generator) -> list[Finding]:
    """The share, and what it means for the rank."""
    count, n, keys = data.n_facts, data.context, row_ids(data)
    share = 1.0 if len(keys) < count else overlap(keys)
    one = share > 1 - 1e-12
    if one:
        who = f"all {count:,} examples share" if count > 1 else "the one example has"
        said = f"{who} one context of {n}: no more than H(n - 1) + 1 arbitrary real labels fit"
    elif share == 0:
        said = "no two examples share a token of their contexts: the rank can reach H d"
    else:
        said = f"two examples share {100 * share:.3g} % of their contexts on average: the rank lies in between"
    # Of tokens it is worth knowing, but nothing that is said about tokens rests on it.
    theorems = THEOREMS if data.words is None else ()
    holds = one if theorems else None
    return [Finding(NAME, holds, said + ".", share, share, theorems=theorems, detail={"overlap": share})]


CHECKS = {"facts": check, "vectors": check}
