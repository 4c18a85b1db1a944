"""Are these vectors independent? A verdict that says what it rests on.

Rows are scaled to length one. If every stored number may be off by a share u of itself, the singular values of k rows
are off by up to sqrt(k) u, and by a few times that if a combination of them was computed in the same format. Computing
them in float64 adds a multiple of its own roundoff. That is the noise of a set,

    noise = 4 sqrt(k) u + 4 max(k, d) 2^-53 sigma_max.

Independent: the smallest singular value is more than 8 times the noise, so no rounding made the set independent.
Dependent:   it is at most the noise, so the stored numbers are what rounding makes of an exactly dependent set.
Doubtful:    in between; no verdict is given, and the doubt is reported.

Whole numbers are exact (u = 0), and a set of them that is not clearly independent is decided modulo two primes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rote.assumptions import _batched
from rote.data._arrays import FloatArray as Array
from rote.data._arrays import IntArray

__all__ = ["CLEAR", "RankVerdict", "Rows", "judge_many", "noise", "rank_mod"]


UNIT = 2.0**-53
CLEAR = 8.0
_PRIMES = (2_147_483_629, 2_147_483_587)
_CHUNK_NUMBERS = 4_000_000
_MOST_GRAM = 6_000

INDEPENDENT, DEPENDENT, DOUBTFUL = 1, 0, -1


def noise(k: int, d: int, roundoff: float, largest: float = 1.0) -> float:
    """The singular value that rounding alone can make of zero, for k rows of length one in d dimensions."""
    return 4 * math.sqrt(k) * roundoff + 4 * max(k, d) * UNIT * largest


@dataclass(frozen=True)
class RankVerdict:
    """The rank of one matrix: at least `lower`, at most `upper`, with the two singular values around the gap."""

    lower: int
    upper: int
    above: float
    """The smallest singular value that counts, rows scaled to length one; 0 if none does."""
    below: float
    """The largest one that does not count, or 0."""
    noise: float

    @property
    def rank(self) -> int | None:
        return self.lower if self.lower == self.upper else None


class Rows:
    """Vectors scaled to length one, ready for questions about subsets of them."""

    def __init__(self, vectors: Array, roundoff: float) -> None:
        self.vectors = np.asarray(vectors, dtype=np.float64)
        self.roundoff = roundoff
        # By the largest number first: squares of very small or large ones would vanish or overflow.
        largest = np.abs(self.vectors).max(axis=-1)
        self.zero = largest == 0
        scaled = self.vectors / np.where(self.zero, 1.0, largest)[..., None]
        length = np.linalg.norm(scaled, axis=-1)
        self.unit: Array = scaled / np.where(self.zero, 1.0, length)[..., None]
        self.length: Array = length * largest

    @property
    def d(self) -> int:
        return int(self.unit.shape[-1])

    def __len__(self) -> int:
        return len(self.unit)

    def rank(self, which: IntArray | slice = slice(None)) -> RankVerdict:
        """The rank of some of the rows, with the gap in the singular values that it rests on."""
        rows = self.unit[which]
        return rank_verdict(rows, self.vectors[which], self.roundoff)

    def dependent(self, which: IntArray) -> bool | None:
        """True, False, or None where the numbers do not say; the empty set is independent."""
        if len(which) == 0:
            return False
        code = int(judge_many(self, np.asarray(which, dtype=np.int64)[None])[0])
        return {INDEPENDENT: False, DEPENDENT: True, DOUBTFUL: None}[code]

    def coefficients(self, which: IntArray) -> tuple[Array, float]:
        """The combination of these rows that comes closest to zero (largest coefficient 1), and what it leaves.

        Coefficients are for the vectors as stored; the residual is relative to the longest term.
        """
        weights = np.linalg.svd(self.unit[which])[0][:, -1]
        length = self.length[which]
        raw = weights / np.where(length == 0, 1.0, length)
        raw = raw / raw[int(np.argmax(np.abs(raw)))]
        terms = raw[:, None] * self.vectors[which]
        size = float(np.linalg.norm(terms, axis=1).max())
        return raw, float(np.linalg.norm(terms.sum(axis=0))) / (size or 1.0)


def rank_verdict(unit: Array, vectors: Array, roundoff: float) -> RankVerdict:
    """The rank of a matrix whose rows are given scaled to length one, and as they are."""
    k, d = unit.shape
    singular = np.linalg.svd(unit, compute_uv=False)
    level = float(noise(k, d, roundoff, float(singular[0]) if singular.size else 1.0))
    lower, upper = int(np.sum(singular > CLEAR * level)), int(np.sum(singular > level))
    if roundoff == 0.0 and lower < min(k, d):
        lower = upper = rank_mod(vectors)
    above = float(singular[lower - 1]) if lower else 0.0
    below = float(singular[lower]) if lower < len(singular) else 0.0
    return RankVerdict(lower, upper, above, below, level)


def rank_mod(matrix: Array) -> int:
    """The rank of a matrix of whole numbers modulo two primes; never above the true rank, below it with odds of 1e-9.

    The larger of the two answers is returned. A prime hides a dependency only if it divides a minor.
    """
    return max(_rank_mod(matrix, prime) for prime in _PRIMES)


def _rank_mod(matrix: Array, prime: int) -> int:
    work = np.mod(np.rint(matrix).astype(np.int64), prime)
    rank, (rows, cols) = 0, work.shape
    for column in range(cols):
        below = np.flatnonzero(work[rank:, column])
        if not below.size:
            continue
        pivot = rank + int(below[0])
        work[[rank, pivot]] = work[[pivot, rank]]
        inverse = pow(int(work[rank, column]), -1, prime)
        work[rank] = work[rank] * inverse % prime
        rest = work[rank + 1 :]
        work[rank + 1 :] = (rest - rest[:, column : column + 1] * work[rank] % prime) % prime
        rank += 1
        if rank == rows:
            break
    return rank


def judge_many(rows: Rows, subsets: IntArray) -> npt.NDArray[np.int8]:
    """One verdict for each subset (B, k) of row indices: 1 independent, 0 dependent, -1 doubtful.

    A Cholesky factorisation of the Gram matrix less a shift decides the clear cases: if it runs through, the smallest
    eigenvalue is positive by more than rounding can account for. The rest goes through singular values.
    """
    count, k = subsets.shape
    verdicts = np.full(count, DOUBTFUL, dtype=np.int8)
    if k > rows.d:
        verdicts[:] = DEPENDENT
        return verdicts
    if len(rows) <= _MOST_GRAM and _batched.available(k, count):
        clear = _batched.positive(rows.unit @ rows.unit.T, subsets, _least(k, rows.d, rows.roundoff))
        verdicts[clear] = INDEPENDENT
        rest = np.flatnonzero(~clear)
        if rest.size:
            verdicts[rest] = _by_singular_values(rows, subsets[rest], rows.unit[subsets[rest]])
        return verdicts
    step = max(1, _CHUNK_NUMBERS // (k * max(k, rows.d)))
    for start in range(0, count, step):
        part = subsets[start : start + step]
        chosen = rows.unit[part]
        done = _clearly_independent(chosen, rows.roundoff)
        verdicts[start : start + step][done] = INDEPENDENT
        rest = np.flatnonzero(~done)
        if rest.size:
            verdicts[start + rest] = _by_singular_values(rows, part[rest], chosen[rest])
    return verdicts


def _least(k: int, d: int, roundoff: float) -> float:
    """What the eigenvalues of a Gram matrix must exceed: they are squares, and its own rounding error is below
    (d + k) k 2^-53 for rows of length 1."""
    return (2 * CLEAR * noise(k, d, roundoff, k**0.5)) ** 2 + 8 * (d + k) * k * UNIT


def _clearly_independent(chosen: Array, roundoff: float) -> npt.NDArray[np.bool_]:
    import torch

    _, k, d = chosen.shape
    block = torch.from_numpy(chosen)
    gram = block @ block.transpose(1, 2)
    gram.diagonal(dim1=1, dim2=2).sub_(_least(k, d, roundoff))
    failed = torch.linalg.cholesky_ex(gram).info
    return np.asarray(failed.numpy() == 0)


def _by_singular_values(rows: Rows, subsets: IntArray, chosen: Array) -> npt.NDArray[np.int8]:
    k = subsets.shape[1]
    singular = np.linalg.svd(chosen, compute_uv=False)
    level = np.array([noise(k, rows.d, rows.roundoff, float(top)) for top in singular[:, 0]])
    least = singular[:, -1]
    found = np.where(least > CLEAR * level, INDEPENDENT, np.where(least <= level, DEPENDENT, DOUBTFUL)).astype(np.int8)
    if rows.roundoff == 0.0:
        for i in np.flatnonzero(found != INDEPENDENT):
            found[i] = INDEPENDENT if rank_mod(rows.vectors[subsets[i]]) == k else DEPENDENT
    return found
