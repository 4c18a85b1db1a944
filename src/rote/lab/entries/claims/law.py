"""Which law do the points follow?

Every point is predicted by a fit to the others. Of the laws whose cross-validated error is within one standard error of
the smallest, the one with the fewest parameters is taken, and of those the one with the smallest error. The claim holds
if that is the expected `law`, for the share `least` of the series that `by` tells apart. Between a line and a parabola
there is a second witness, the interval of the curvature: a series in which it contradicts the choice (a parabola is
chosen, and its curvature may be zero; or a line, and it may not) is open, and open series can leave a claim undecided.
So is a series of which the chosen law explains less than nine tenths of the variance: the best of poor laws is none.

Numbers: series, wins, open, poor, and of the last series cv_LAW, exponent(_low, _high), slope(_low, _high), chosen,
points, curvature(_low, _high), r2 (the share of the variance that a straight line explains); exponent_min,
exponent_max, slope_min and slope_max over the series.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rote.analyse.fit.laws import Curve, fit_law, get_law
from rote.analyse.fit.points import variances
from rote.lab.entries.claims._base import Verdict, number_of, text_list, text_of
from rote.lab.entries.table import Spot, Table, spots

__all__ = ["KEYS", "choose", "curves_of", "decide", "points_of", "split"]

KEYS = ("x", "y", "where", "by", "law", "laws", "least", "saturation")
_EXPLAINED = 0.9


def points_of(table: Table, spec: Mapping[str, Any], where: list[str] | None = None) -> list[Spot]:
    """The points that a test is about."""
    chosen = text_list(spec, "where") if where is None else where
    top = number_of(spec, "saturation", 0.95)
    return spots(table, text_of(spec, "x"), text_of(spec, "y"), chosen, saturation=top)


def split(table: Table, by: list[str], where: list[str]) -> list[list[str]]:
    """Conditions that tell the series apart."""
    seen: dict[tuple[Any, ...], list[str]] = {}
    for row in table.seeds(where):
        mark = tuple(row.get(name) for name in by)
        seen.setdefault(mark, [*where, *(f"{name}={value}" for name, value in zip(by, mark, strict=True))])
    return [seen[mark] for mark in sorted(seen, key=lambda mark: [(str(type(v)), v) for v in mark])]


def curves_of(found: list[Spot], laws: list[str]) -> dict[str, Curve]:
    """Every law that so many unsaturated points can be fitted with, and tested on."""
    used = [spot for spot in found if not spot.saturated]
    x = np.array([spot.x for spot in used])
    y = np.array([spot.mean for spot in used])
    curves = {}
    for name in laws:
        law = get_law(name)
        if len(used) < law.size + 2 or (name == "power" and (x.min() <= 0 or y.min() <= 0)):
            continue
        spread = np.array(variances(used))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            curves[name] = fit_law(law, x, y, spread, rng=np.random.default_rng(0))
    return curves


def choose(curves: Mapping[str, Curve]) -> str:
    """The simplest law within one standard error of the smallest cross-validated error."""
    best = min(curves.values(), key=lambda curve: curve.cv)
    near = [curve for curve in curves.values() if curve.cv**2 <= best.cv**2 + best.cv_spread]
    return min(near, key=lambda curve: (curve.law.size, curve.cv)).law.name


def explained(curve: Curve, found: list[Spot]) -> float | None:
    """The share of the variance of the unsaturated points that a fitted law explains; None if there is no variance."""
    used = [spot for spot in found if not spot.saturated]
    means = np.array([spot.mean for spot in used])
    rest = means - curve.at(np.array([spot.x for spot in used]))
    spread = float(((means - means.mean()) ** 2).sum())
    return 1 - float((rest**2).sum()) / spread if spread else None


def decide(table: Table, spec: Mapping[str, Any]) -> Verdict:
    expected = text_of(spec, "law")
    laws = text_list(spec, "laws") or ["linear", "quadratic"]
    needed = list(dict.fromkeys([*laws, expected]))
    numbers: dict[str, Any] = {"series": 0, "wins": 0, "open": 0, "poor": 0}
    sure, possible = 0, 0
    slopes: list[float] = []
    exponents: list[float] = []
    for where in split(table, text_list(spec, "by"), text_list(spec, "where")):
        points = points_of(table, spec, where)
        curves = curves_of(points, [*needed, *(name for name in ("linear", "power") if name not in needed)])
        rivals = {name: curves[name] for name in needed if name in curves}
        if len(rivals) < len(needed):
            continue
        numbers["series"] += 1
        chosen = choose(rivals)
        numbers["wins"] += chosen == expected
        numbers |= {"chosen": chosen, "points": sum(not spot.saturated for spot in points)}
        numbers |= {f"cv_{name}": curve.cv for name, curve in rivals.items()}
        for key, name, index in (("slope", "linear", 1), ("exponent", "power", 1), ("curvature", "quadratic", 2)):
            if name in curves:
                low, high = curves[name].intervals[index]
                numbers |= {key: float(curves[name].params[index]), f"{key}_low": low, f"{key}_high": high}
        if "quadratic" in rivals:
            low, high = rivals["quadratic"].intervals[2]
            straight = low <= 0 <= high
            unsure = (chosen == "quadratic" and straight) or (chosen == "linear" and not straight)
        else:
            unsure = False
        share = explained(rivals[chosen], points)
        poor = share is not None and share < _EXPLAINED
        numbers["poor"] += poor
        unsure = unsure or poor
        numbers["open"] += unsure
        sure += chosen == expected and not unsure
        possible += chosen == expected or unsure
        if "linear" in curves:
            numbers["r2"] = explained(curves["linear"], points)
        slopes += [numbers["slope"]] if "linear" in curves else []
        exponents += [numbers["exponent"]] if "power" in curves else []
    for key, values in (("slope", slopes), ("exponent", exponents)):
        if values:
            numbers |= {f"{key}_min": min(values), f"{key}_max": max(values)}
    if not numbers["series"]:
        return Verdict("undecided", "too few points below saturation for these laws", numbers)
    least = number_of(spec, "least", 1.0) * numbers["series"]
    verdict = "holds" if sure >= least else "does not hold" if possible < least else "undecided"
    why = f"{expected} chosen in {numbers['wins']} of {numbers['series']} series"
    if numbers["poor"]:
        why += f", and in {numbers['poor']} the chosen law explains less than {_EXPLAINED:.0%} of the variance"
    return Verdict(verdict, why, numbers)
