"""Lower bounds that are proved: no set of so few vectors is dependent, by looking at all of them, or by coherence.

Coherence: unit vectors of which any k have sums of off-diagonal Gram entries below 1 in each row are independent
(Gershgorin). For sorted entries that is the Babel function, mu_1(k - 1) < 1, at least as good as (k - 1) mu < 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from rote.assumptions._independence import CLEAR, DEPENDENT, DOUBTFUL, Rows, judge_many, noise
from rote.assumptions._isotropic import Isotropic
from rote.data._arrays import IntArray

__all__ = ["babel_bound", "first_dependent", "no_triples", "unique_circuit"]


_MOST_TRIPLE_VECTORS = 1_200
_MOST_CANDIDATES = 100_000
_MARGIN = 1e-3
_BATCH = 20_000


def babel_bound(placed: Isotropic, rows: Rows) -> int:
    """The largest k for which Gershgorin shows any k of the vectors independent; 1 if it shows nothing."""
    y = placed.unit
    count = len(y)
    # The rounding of the data, stretched by the change of coordinates, must stay far below what Gershgorin leaves.
    if count < 2 or float(noise(rows.d, rows.d, rows.roundoff)) * placed.condition * CLEAR > _MARGIN**0.5:
        return 1
    deep = min(count - 1, 64, y.shape[1])
    best = np.zeros(deep)
    step = max(1, 8_000_000 // count)
    for start in range(0, count, step):
        gram = np.abs(y[start : start + step] @ y.T)
        gram[np.arange(len(gram)), start + np.arange(len(gram))] = 0.0
        top = -np.sort(-np.partition(gram, count - deep, axis=1)[:, count - deep :], axis=1)
        best = np.maximum(best, np.cumsum(top, axis=1).max(axis=0))
    return 1 + int(np.sum(best < 1 - _MARGIN))


def first_dependent(rows: Rows, size: int, budget: float) -> tuple[bool, IntArray | None, int]:
    """Look at all sets of `size`: (whether all were looked at, a dependent one, how many were doubtful)."""
    count = len(rows)
    if math.comb(count, size) > budget:
        return False, None, 0
    doubts = 0
    for block in _blocks(count, size):
        verdicts = judge_many(rows, block)
        bad = np.flatnonzero(verdicts == DEPENDENT)
        if bad.size:
            return True, block[bad[0]], doubts
        doubts += int(np.sum(verdicts == DOUBTFUL))
    return True, None, doubts


def _blocks(count: int, size: int) -> Iterator[IntArray]:
    sets = itertools.combinations(range(count), size)
    while chunk := list(itertools.islice(sets, _BATCH)):
        yield np.array(chunk, dtype=np.int64)


def no_triples(rows: Rows, placed: Isotropic) -> tuple[bool, IntArray | None, int]:
    """As `first_dependent` for three vectors: project along each vector, and look for parallel pairs in what is left.

    If no two vectors are nearly parallel, a set that is not clearly independent leaves projections within a known
    angle of each other; every such pair is judged on the vectors as stored.
    """
    y = placed.unit
    count = len(y)
    if count > _MOST_TRIPLE_VECTORS or y.shape[1] < 3:
        return False, None, 0
    gram = y @ y.T
    apart = 0.05
    angle = 32 * float(noise(3, rows.d, rows.roundoff, 3**0.5)) * placed.condition / apart**2
    if angle > 0.3:
        return False, None, 0
    floor = 1 - max(angle**2, 1e-6)
    sets: list[IntArray] = []
    left, right = np.nonzero(np.triu(gram**2 > 1 - apart**2, 1))
    if len(left) * count > _MOST_CANDIDATES:
        return False, None, 0
    for i, j in zip(left.tolist(), right.tolist(), strict=True):
        third = np.setdiff1d(np.arange(count), [i, j])
        sets.append(np.sort(np.stack([np.full_like(third, i), np.full_like(third, j), third], axis=1), axis=1))
    total = sum(len(one) for one in sets)
    for i in range(count - 2):
        c = gram[i, i + 1 :]
        rest = np.maximum(1 - c**2, 1e-12)
        inner = gram[i + 1 :, i + 1 :] - c[:, None] * c
        inner *= inner
        inner /= rest[:, None]
        second, last = np.nonzero(np.triu(inner > floor * rest, 1))
        if second.size:
            sets.append(np.stack([np.full_like(second, i), second + i + 1, last + i + 1], axis=1))
            total += len(second)
            if total > _MOST_CANDIDATES:
                return False, None, 0
    if not sets:
        return True, None, 0
    candidates = np.unique(np.concatenate(sets), axis=0)
    verdicts = judge_many(rows, candidates)
    bad = np.flatnonzero(verdicts == DEPENDENT)
    return True, (candidates[bad[0]] if bad.size else None), int(np.sum(verdicts == DOUBTFUL))


def unique_circuit(rows: Rows, rank: int) -> tuple[IntArray | None, bool]:
    """Where the vectors have one linear relation only, its support is the one circuit there is.

    Returns the circuit and whether the relation is clear: every coefficient well away from zero or within rounding.
    """
    count = len(rows)
    if count - rank != 1 or count > 1_500:
        return None, False
    left, singular, _ = np.linalg.svd(rows.unit, full_matrices=True)
    relation = np.abs(left[:, -1])
    least = float(singular[rank - 1]) if rank else 1.0
    level = float(noise(count, rows.d, rows.roundoff, float(singular[0]))) / least
    if np.any((relation > level) & (relation <= CLEAR * level)):
        return None, False
    members = np.flatnonzero(relation > CLEAR * level)
    if rows.dependent(members) is not True:
        return None, False
    return members, True
