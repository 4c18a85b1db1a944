"""An interval for the Kruskal rank: proved from below, witnessed from above, and sampled in between.

The Kruskal rank of T vectors is the largest Q such that any Q of them are independent. Deciding it is hard in general,
so three different things are said, and kept apart:

    lower      proved: no set of `lower` vectors is dependent (all were looked at, or coherence excludes them)
    upper      proved: `witness` is a dependent set of upper + 1 vectors, or the rank is no larger
    sampled    the share of random sets that are independent, with a Clopper-Pearson interval; no proof of anything
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rote.assumptions import _circuits, _exhaustive
from rote.assumptions._independence import RankVerdict, Rows
from rote.assumptions._isotropic import Isotropic, isotropic
from rote.assumptions._sampling import Sampler, Share
from rote.data._arrays import IntArray

__all__ = ["Kruskal", "kruskal"]


_MOST_SETS = 150_000
_LARGEST_SEARCH = 10
"""Circuits of more vectors are not searched for; `rank` still bounds the Kruskal rank."""


@dataclass(frozen=True)
class Kruskal:
    """What is known of the Kruskal rank of some vectors."""

    lower: int
    upper: int
    lower_by: str
    upper_by: str
    rank: RankVerdict
    witness: tuple[int, ...] = ()
    coefficients: tuple[float, ...] = ()
    residual: float | None = None
    n_classes: int = 0
    """Vectors that are different up to scale."""
    sampler: Sampler | None = None

    def at_least(self, needed: int) -> bool | None:
        """Whether any `needed` of the vectors are independent."""
        if self.lower >= needed:
            return True
        return False if self.upper < needed else None

    def sample(self, size: int, samples: int, rng: np.random.Generator) -> Share:
        assert self.sampler is not None
        if self.lower >= size:
            return Share(size, samples, samples, 0, 0, 1.0, 1.0, exact=True)
        return self.sampler.share(size, samples, rng)


def kruskal(rows: Rows, rng: np.random.Generator, *, effort: float = 1.0) -> Kruskal:
    """The interval; `effort` scales how many sets are looked at, and how long witnesses are searched for."""
    count = len(rows)
    rank = rows.rank()
    classes, near = _circuits.parallel_classes(rows)
    n_classes = len(np.unique(classes))

    def answer(
        lower: int, upper: int, low: str, high: str, found: IntArray | None, s: Sampler | None = None
    ) -> Kruskal:
        weights, residual = ((), None) if found is None else _witness(rows, found)
        sampler = s or Sampler(rows, classes=classes)
        members = () if found is None else tuple(int(i) for i in found)
        return Kruskal(min(lower, upper), upper, low, high, rank, members, weights, residual, n_classes, sampler)

    if rows.zero.any():
        return answer(0, 0, "nothing", "a zero vector", np.flatnonzero(rows.zero)[:1])
    if n_classes < count:
        second = int(np.flatnonzero(classes != np.arange(count))[0])
        pair = np.array([classes[second], second])
        return answer(1, 1, "no zero vector", "two parallel vectors", pair)
    if rank.lower == count:
        return answer(count, count, "all vectors together are independent", "there are no more vectors", None)
    if near or rank.upper == 1:
        return answer(1, rank.upper, "no zero vector", "the rank of all vectors", None)
    placed = isotropic(rows.unit, rank.lower) if rank.rank is not None else Isotropic(rows.unit, 1.0)
    lower, low_by = 2, "no two vectors are parallel"
    upper, high_by = rank.upper, "the rank of all vectors"
    witness: IntArray | None = None
    if rank.rank is not None:
        alone, clear = _exhaustive.unique_circuit(rows, rank.rank)
        if clear and alone is not None:
            reason = "the vectors have one linear relation"
            return answer(len(alone) - 1, len(alone) - 1, reason, f"{reason}, shown by the witness", alone)
    coherent = _exhaustive.babel_bound(placed, rows)
    if coherent > lower:
        lower, low_by = coherent, "coherence (Gershgorin) in isotropic position"
    sampler = Sampler(rows, placed=placed if rank.rank is not None else None, classes=classes)
    few = sampler.leverage_bound()
    if few > lower:
        lower, low_by = few, "the vectors have few linear relations, too few for a small dependent set"
    for size in range(3, upper + 1):
        if size > lower:
            done, found, doubts = _exhaustive.first_dependent(rows, size, effort * _MOST_SETS)
            if not done and size == 3 and effort >= 1:
                done, found, doubts = _exhaustive.no_triples(rows, placed)
            if found is not None:
                smallest = _circuits.shrink(rows, found)
                members = found if smallest is None else smallest
                return answer(lower, len(members) - 1, low_by, "a dependent set", members, sampler)
            if not done or doubts:
                break
            lower, low_by = size, f"all sets of {size} vectors were looked at"
    if lower < upper:
        witness = _circuits.sparse_circuit(rows, placed.unit, min(upper, _LARGEST_SEARCH), rng, effort=effort)
    if witness is None and rank.rank is not None:
        witness = _circuits.any_circuit(rows, rank.rank)
    if witness is not None and len(witness) - 1 < upper:
        upper, high_by = len(witness) - 1, "a dependent set"
    return answer(lower, upper, low_by, high_by, witness, sampler)


def _witness(rows: Rows, found: IntArray) -> tuple[tuple[float, ...], float]:
    if len(found) == 1:
        return (1.0,), 0.0
    weights, residual = rows.coefficients(found)
    return tuple(float(w) for w in weights), residual
