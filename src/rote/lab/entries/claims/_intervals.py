"""Intervals of what is linear in means over seeds, and what they say about limits.

An estimate sum_i w_i m_i of means m_i has the variance sum_i w_i^2 s_i^2 / n_i, s_i^2 the variance over the n_i seeds
of point i, and degrees of freedom after Satterthwaite: variances may differ from point to point, and nothing but the
spread of seeds is taken for noise. A ratio of two such estimates has the interval of Fieller. Every interval covers
95 %, so a verdict that rests on one is wrong in at most one case of twenty. A claim about k things at once holds only
if all k do, which needs no correction; it fails if one does, so there intervals are widened to 1 - 0.05/k (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rote.analyse.fit.points import Spot
from rote.data._arrays import FloatArray

__all__ = ["Estimate", "difference", "judge", "linear", "ratio", "seeds_to_decide", "spelled"]

_LEVEL = 0.95
_MOST = 1000


@dataclass(frozen=True)
class Estimate:
    """A number with its interval; without two seeds anywhere `low` and `high` are None."""

    value: float
    low: float | None = None
    high: float | None = None
    seeds: int = 1
    """Seeds of the point that has fewest."""
    free: float = math.inf
    """Degrees of freedom of the interval."""

    def numbers(self, name: str) -> dict[str, float | None]:
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


def _moments(spots: Sequence[Spot]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means, variances of the means, and degrees of freedom."""
    mean = np.array([spot.mean for spot in spots])
    free = np.array([len(spot.values) - 1 for spot in spots])
    spread = np.array([float(np.var(spot.values, ddof=1)) if len(spot.values) > 1 else math.nan for spot in spots])
    return mean, spread / (free + 1), free


def _quantile(free: float, among: int = 1) -> float:
    from scipy.special import ndtri, stdtrit  # type: ignore[import-untyped, unused-ignore]

    at = 1 - (1 - _LEVEL) / (2 * among)
    return float(stdtrit(free, at) if math.isfinite(free) else ndtri(at))


def _reach(weights: FloatArray, variance: FloatArray, free: FloatArray) -> tuple[float, float] | None:
    """Half the interval of a linear estimate, its degrees of freedom; None where a point that counts has one seed."""
    used = weights != 0
    if (free[used] < 1).any():
        return None
    parts = weights[used] ** 2 * variance[used]
    whole = float(parts.sum())
    if whole == 0:
        return 0.0, math.inf
    degrees = whole**2 / float((parts**2 / free[used]).sum())
    return _quantile(degrees) * math.sqrt(whole), degrees


def linear(spots: Sequence[Spot], weights: FloatArray) -> Estimate:
    """sum_i w_i m_i."""
    mean, variance, free = _moments(spots)
    value, reach = float(weights @ mean), _reach(weights, variance, free)
    few = int(free.min()) + 1
    if reach is None:
        return Estimate(value, seeds=few)
    return Estimate(value, value - reach[0], value + reach[0], few, reach[1])


def ratio(spots: Sequence[Spot], over: FloatArray, under: FloatArray) -> Estimate:
    """(sum_i o_i m_i) / (sum_i u_i m_i): all r for which sum_i (o_i - r u_i) m_i may be zero.

    Unbounded, and so None, where the denominator itself may be zero.
    """
    mean, variance, free = _moments(spots)
    few = int(free.min()) + 1
    top, bottom = float(over @ mean), float(under @ mean)
    if bottom == 0:
        return Estimate(math.nan, seeds=few)
    value = top / bottom
    below = _reach(under, variance, free)
    if below is None or below[0] >= abs(bottom):
        return Estimate(value, seeds=few)
    ends, degrees = [], below[1]
    for side in (-1, 1):
        # The reach depends on r only through its degrees of freedom; a few rounds settle both.
        end = value
        for _ in range(50):
            reach = _reach(over - end * under, variance, free)
            if reach is None:
                return Estimate(value, seeds=few)
            degrees = reach[1]
            end, before = value + side * reach[0] / abs(bottom), end
            if abs(end - before) <= 1e-12 + 1e-9 * abs(end):
                break
        ends.append(end)
    return Estimate(value, ends[0], ends[1], few, degrees)


def difference(ours: Sequence[float], theirs: Sequence[float], factor: float = 1.0) -> Estimate:
    """Mean of ours minus `factor` times the mean of theirs (Welch)."""
    spots = [Spot(0.0, tuple(ours), False), Spot(1.0, tuple(theirs), False)]
    return linear(spots, np.array([1.0, -factor]))


def judge(found: Estimate, at_least: float = -math.inf, at_most: float = math.inf, *, among: int = 1) -> str:
    """Holds with the whole interval inside the limits, does not with the whole interval on one side, else undecided.

    `among` so many that a claim is about at once, of which one that fails is enough. One seed decides nothing.
    """
    if found.low is None or found.high is None:
        return "undecided"
    if at_least <= found.low and found.high <= at_most:
        return "holds"
    wider = _quantile(found.free, among) / _quantile(found.free) if among > 1 else 1.0
    high, low = (found.value + wider * (end - found.value) for end in (found.high, found.low))
    return "does not hold" if high < at_least or low > at_most else "undecided"


def seeds_to_decide(found: Estimate, at_least: float = -math.inf, at_most: float = math.inf) -> int | None:
    """About how many seeds a point would decide, if the estimate stayed where it is; None beyond a thousand."""
    if found.low is None or found.high is None or not math.isfinite(found.value):
        return None
    away = min(abs(found.value - limit) for limit in (at_least, at_most) if math.isfinite(limit))
    half = (found.high - found.low) / 2
    need = math.inf if away == 0 else found.seeds * (half / away) ** 2
    return None if need > _MOST else max(found.seeds + 1, math.ceil(need))


def spelled(verdict: str, found: Estimate, at_least: float = -math.inf, at_most: float = math.inf) -> str:
    """What is missing where a verdict is undecided."""
    if verdict != "undecided":
        return ""
    if found.low is None:
        return "one seed has no spread, so nothing can be told; run two or more"
    need = seeds_to_decide(found, at_least, at_most)
    return f"about {need} seeds a point would decide" if need else "it lies on the limit: no number of seeds would help"
