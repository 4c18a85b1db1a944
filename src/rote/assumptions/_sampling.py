"""The share of random n-subsets that are independent: many subsets at once, each verdict certified.

Three roads lead to a verdict, cheapest first:

1. Subsets with a zero vector or two parallel ones are dependent.
2. If T vectors of rank r have few linear relations, m = T - r, the relations decide. With N an orthonormal basis of
   them (T x m), S is independent if and only if the largest eigenvalue of N_S^T N_S is below 1, and
   sigma_min(S)^2 >= sigma_r^2 (1 - lambda_max). The sum of squares of N_S is an upper bound that costs n additions.
3. A Cholesky factorisation, in float32, of the Gram matrix in isotropic coordinates less a shift; the shift is larger
   than every rounding error, so success is proof. What fails is tried again in float64, then by singular values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rote.assumptions import _batched
from rote.assumptions._circuits import parallel_classes
from rote.assumptions._independence import CLEAR, DEPENDENT, DOUBTFUL, INDEPENDENT, UNIT, Rows, judge_many, noise
from rote.assumptions._isotropic import Isotropic, isotropic
from rote.data._arrays import IntArray

__all__ = ["Sampler", "Share", "clopper_pearson", "draw_subsets"]

Verdicts = npt.NDArray[np.int8]

_CHUNK = 2_000_000
_MOST_DUAL = 4_000
_MOST_GRAM = 6_000


@dataclass(frozen=True)
class Share:
    """Of `count` random subsets of `size`, so many were independent; `low` and `high` enclose the true share."""

    size: int
    count: int
    independent: int
    dependent: int
    doubtful: int
    low: float
    high: float
    exact: bool = False
    """Every subset is known, and the interval is a point."""

    @property
    def share(self) -> float:
        return self.independent / self.count if self.count else 1.0

    def to_dict(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "count": self.count,
            "independent": self.independent,
            "dependent": self.dependent,
            "doubtful": self.doubtful,
            "share": self.share,
            "low": self.low,
            "high": self.high,
            "exact": self.exact,
        }


def clopper_pearson(successes: int, count: int) -> tuple[float, float]:
    """The exact binomial interval: its coverage is at least 95 % whatever the true share is."""
    from scipy.special import betaincinv

    if count == 0:
        return 0.0, 1.0
    tail = (1 - 0.95) / 2
    low = 0.0 if successes == 0 else float(betaincinv(successes, count - successes + 1, tail))
    high = 1.0 if successes == count else float(betaincinv(successes + 1, count - successes, 1 - tail))
    return low, high


def draw_subsets(count: int, size: int, samples: int, rng: np.random.Generator) -> IntArray:
    """Uniform random subsets of `size` out of `count`, independent of each other, sorted."""
    out = np.empty((samples, size), dtype=np.int64)
    step = max(1, _CHUNK // count)
    for start in range(0, samples, step):
        keys = rng.random((min(step, samples - start), count), dtype=np.float32)
        out[start : start + step] = np.argpartition(keys, size - 1, axis=1)[:, :size]
    out.sort(axis=1)
    return out


class Sampler:
    """Verdicts on many subsets of the same vectors; what they share is computed once."""

    def __init__(self, rows: Rows, *, placed: Isotropic | None = None, classes: IntArray | None = None) -> None:
        self.rows = rows
        self.rank = rows.rank()
        found = parallel_classes(rows)[0] if classes is None else classes
        self.repeated = len(np.unique(found)) < len(found) or bool(rows.zero.any())
        self.classes = found
        count = len(rows)
        self.all_independent = self.rank.lower == count
        self.relations: torch.Tensor | None = None
        self._placed = placed
        self._gram: torch.Tensor | None = None
        self._single: torch.Tensor | None = None
        self._nullity = count - self.rank.lower
        if self._nullity > 0 and self.rank.rank is not None and count <= _MOST_DUAL and self._nullity <= count // 3:
            left = np.linalg.svd(rows.unit, full_matrices=True)[0]
            self.relations = torch.from_numpy(np.ascontiguousarray(left[:, self.rank.lower :]))
            self.relation_size = (self.relations**2).sum(dim=1)

    def judge(self, subsets: IntArray) -> Verdicts:
        """One verdict for each subset: 1 independent, 0 dependent, -1 doubtful."""
        count, size = subsets.shape
        verdicts = np.full(count, DOUBTFUL, dtype=np.int8)
        if size > self.rank.upper:
            verdicts[:] = DEPENDENT
            return verdicts
        if self.all_independent:
            verdicts[:] = INDEPENDENT
            return verdicts
        open_ = np.ones(count, dtype=bool)
        if self.repeated:
            seen = np.sort(self.classes[subsets], axis=1)
            clash = (seen[:, 1:] == seen[:, :-1]).any(axis=1) | self.rows.zero[subsets].any(axis=1)
            verdicts[clash] = DEPENDENT
            open_ &= ~clash
        if self.relations is not None and self._nullity <= size and open_.any():
            self._by_relations(subsets, verdicts, open_)
        elif open_.any():
            self._by_gram(subsets, verdicts, open_)
        rest = np.flatnonzero(open_)
        if rest.size:
            verdicts[rest] = judge_many(self.rows, subsets[rest])
        return verdicts

    def _by_relations(self, subsets: IntArray, verdicts: Verdicts, open_: npt.NDArray[np.bool_]) -> None:
        assert self.relations is not None
        size, m = subsets.shape[1], self._nullity
        level = CLEAR * float(noise(size, self.rows.d, self.rows.roundoff, size**0.5)) / self.rank.above
        # Many relations are multiplied in float32: twice as fast, and the spare room covers its rounding.
        table = self.relations.float() if m > 32 else self.relations
        unit = 2.0**-24 if m > 32 else UNIT
        spare = 2 * level**2 + 1.1 * (size + m + 2) * m * unit + 16 * len(self.rows) * UNIT
        if spare > 0.5:
            return
        where = np.flatnonzero(open_)
        index = torch.from_numpy(subsets[where])
        light = (self.relation_size[index].sum(dim=1) < 1 - spare).numpy()
        verdicts[where[light]] = INDEPENDENT
        open_[where[light]] = False
        heavy = np.flatnonzero(~light)
        step = max(1, _CHUNK // (size * m))
        eye = (1 - spare) * torch.eye(m, dtype=table.dtype)
        for start in range(0, len(heavy), step):
            part = heavy[start : start + step]
            chosen = table[index[part].reshape(-1)].view(len(part), size, m)
            rest = torch.baddbmm(eye, chosen.transpose(1, 2), chosen, alpha=-1)
            clear = (torch.linalg.cholesky_ex(rest).info == 0).numpy()
            verdicts[where[part[clear]]] = INDEPENDENT
            open_[where[part[clear]]] = False

    def _by_gram(self, subsets: IntArray, verdicts: Verdicts, open_: npt.NDArray[np.bool_]) -> None:
        size, total = subsets.shape[1], len(self.rows)
        if self._placed is None:
            self._placed = isotropic(self.rows.unit, self.rank.lower)
        if self._single is None:
            self._single = torch.from_numpy(self._placed.unit).float()
        d = self._placed.unit.shape[1]
        spread = CLEAR * float(noise(size, self.rows.d, self.rows.roundoff, size**0.5)) * self._placed.condition
        gather = total <= _MOST_GRAM and (size > 64 or _batched.available(size, int(open_.sum())))
        # Higham: factorising a matrix of trace k in unit roundoff v is exact for one within (k + 1) v k of it. Entries
        # of the Gram matrix are rounded once if it was computed in float64, and d times if not.
        shift = 2 * spread**2 + 1.1 * (size + 2 + (0 if gather else d)) * size * 2.0**-24
        if shift > 0.25 or size > 0.8 * d:  # square sets are too close to singular for float32
            return
        if gather and self._gram is None:
            y = torch.from_numpy(self._placed.unit)
            self._gram = (y @ y.T).float()
        where = np.flatnonzero(open_)
        if gather and self._gram is not None and _batched.available(size, len(where)):
            clear = _batched.positive(self._gram.numpy(), subsets[where], shift)
            verdicts[where[clear]] = INDEPENDENT
            open_[where[clear]] = False
            return
        step = max(1, _CHUNK // (size * max(size, d)))
        for start in range(0, len(where), step):
            part = where[start : start + step]
            index = torch.from_numpy(subsets[part])
            if gather and self._gram is not None:
                # Longer sets are cheaper to look up than to multiply out.
                block = self._gram.reshape(-1).take(index[:, :, None] * total + index[:, None, :])
            else:
                chosen = self._single[index.reshape(-1)].view(len(part), size, d)
                block = torch.bmm(chosen, chosen.transpose(1, 2))
            block.diagonal(dim1=1, dim2=2).sub_(shift)
            clear = (torch.linalg.cholesky_ex(block).info == 0).numpy()
            verdicts[part[clear]] = INDEPENDENT
            open_[part[clear]] = False

    def leverage_bound(self) -> int:
        """A number of vectors any so many of which are independent: the largest sums of squares of N_S stay below 1."""
        if self.relations is None:
            return 0
        largest = np.sort(self.relation_size.numpy())[::-1].cumsum()
        sizes = np.arange(1, len(largest) + 1)
        level = CLEAR * 4 * (np.sqrt(sizes) * self.rows.roundoff + len(self.rows) * UNIT * np.sqrt(sizes))
        spare = 2 * (level / self.rank.above) ** 2 + 16 * len(self.rows) * (sizes + self._nullity) * UNIT
        return int(np.sum(np.cumprod(largest < 1 - spare)))

    def share(self, size: int, samples: int, rng: np.random.Generator) -> Share:
        """The sampling test of Mahdavi et al. 2024, with an interval. It proves nothing about the subsets not drawn."""
        size = min(size, len(self.rows))
        if self.all_independent:
            return Share(size, samples, samples, 0, 0, 1.0, 1.0, exact=True)
        if size > self.rank.upper:
            return Share(size, samples, 0, samples, 0, 0.0, 0.0, exact=True)
        verdicts = self.judge(draw_subsets(len(self.rows), size, samples, rng))
        good, bad = int(np.sum(verdicts == INDEPENDENT)), int(np.sum(verdicts == DEPENDENT))
        doubts = samples - good - bad
        low, high = clopper_pearson(good, samples)[0], clopper_pearson(good + doubts, samples)[1]
        return Share(size, samples, good, bad, doubts, low, high)
