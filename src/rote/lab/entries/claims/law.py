"""Is it a line, or a parabola that opens upwards?

This is decided by equivalence. The bend of a series is the curvature of the best parabola in units of its mean slope
over the range: c R / b with y = a + b x + c x^2 about the middle of a range of length R. A bend of 0.2 is a slope that
is a fifth off its mean at the ends, and a parabola that leaves its best line by 2.5 % of the rise. `law = "linear"`
holds in a series if the whole interval of the bend lies within `margin` (0.1: a tenth of the slope over the range),
fails if it lies outside, and is undecided across. `law = "quadratic"` holds if the bend lies above the margin and the
next term, the twist, within it: a cubic that leaves its best parabola by no more of the rise than such a parabola
leaves its line. Where the law would hold, but some mean is further from it than half the margin times the rise, it does
not: no other term may hide. What another margin would say (`beside`, 0.2) is told, and decides nothing.

Noise is the spread of seeds, see `_intervals`. With `by` there are several series; the claim holds if the share `least`
of them (all) hold, fails if too many fail for that, and is undecided otherwise.

Numbers: series, holding, failing, open, and of the last series bend(_low, _high), twist(_low, _high), bent, slope(_low,
_high), exponent, r2 and worst (of the line: share of the variance explained, largest departure in units of
the rise), points, seeds_needed; bend_min, bend_max, slope_min, slope_max, exponent_min, exponent_max over the series;
widest, the largest end of an interval of the bend, in size; each, the bends of all series as text; margin;
beside_margin, beside_verdict, beside_holding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import chebvander

from rote.data._arrays import FloatArray
from rote.errors import UnknownName
from rote.lab.entries.claims._base import Verdict, number_of, text_list, text_of
from rote.lab.entries.claims._intervals import Estimate, judge, linear, ratio, seeds_to_decide
from rote.lab.entries.table import Spot, Table, spots

__all__ = ["KEYS", "decide", "points_of", "split", "together"]

KEYS = ("x", "y", "where", "by", "law", "margin", "beside", "least", "saturation")
_DEGREES = {"linear": 1, "quadratic": 2}
_UNIT = 8.0
"""Curvature in units of the slope over the range is eight times the amplitude of the second Chebyshev term."""


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


def _terms(used: list[Spot], degree: int) -> tuple[FloatArray, FloatArray]:
    """Weights of the means in the last Chebyshev coefficient of a fit of that degree, and in its rise."""
    x = np.array([spot.x for spot in used])
    low, high = x.min(), x.max()
    solve = np.linalg.pinv(chebvander(2 * (x - low) / (high - low) - 1, degree))
    return solve[degree], 2 * solve[1::2].sum(0)


def _next(used: list[Spot], degree: int) -> Estimate | None:
    """The term beyond `degree`, in units of the rise; None with too few points."""
    if len(used) < degree + 2:
        return None
    last, rise = _terms(used, degree + 1)
    return ratio(used, _UNIT * last, rise)


def _of_line(used: list[Spot]) -> dict[str, Any]:
    """What the best line says: slope, share of the variance, largest departure in units of the rise."""
    x, y = np.array([spot.x for spot in used]), np.array([spot.mean for spot in used])
    _, rise = _terms(used, 1)
    slope = linear(used, rise / (x.max() - x.min()))
    rest = y - y.mean() - slope.value * (x - x.mean())
    whole, gain = float(((y - y.mean()) ** 2).sum()), abs(slope.value) * (x.max() - x.min())
    return {
        **slope.numbers("slope"),
        "r2": 1 - float((rest**2).sum()) / whole if whole else None,
        "worst": float(np.abs(rest).max()) / gain if gain else None,
        "exponent": float(np.polyfit(np.log(x), np.log(y), 1)[0]) if min(x.min(), y.min()) > 0 else None,
        "points": len(used),
    }


def _departure(used: list[Spot], degree: int) -> float:
    """The largest distance of a mean from the best polynomial of a degree, in units of its rise."""
    x, y = np.array([spot.x for spot in used]), np.array([spot.mean for spot in used])
    fitted = np.polyval(np.polyfit(x, y, degree), x)
    gain = abs(fitted[x.argmax()] - fitted[x.argmin()])
    return float(np.abs(y - fitted).max() / gain) if gain else np.inf


def _series(used: list[Spot], law: str, margin: float, among: int) -> tuple[str, int | None, dict[str, Any]] | None:
    """Verdict, seeds that would decide, and numbers of one series; None with too few points."""
    degree = _DEGREES[law]
    if len(used) < degree + 2:
        return None
    bend = _next(used, 1)
    assert bend is not None
    numbers: dict[str, Any] = {**_of_line(used), **bend.numbers("bend")}
    parts = [(bend, (-margin, margin))] if law == "linear" else [(bend, (margin, np.inf))]
    twist = _next(used, 2)
    if twist is not None:
        numbers |= twist.numbers("twist")
        if law == "quadratic":
            parts.append((twist, (-margin, margin)))
    said = [judge(found, *limits, among=among) for found, limits in parts]
    verdict = "does not hold" if "does not hold" in said else "undecided" if "undecided" in said else "holds"
    if verdict == "holds" and _departure(used, degree) > margin / 2:
        verdict = "does not hold"
    need = _most(
        seeds_to_decide(found, *limits) for (found, limits), one in zip(parts, said, strict=True) if one == "undecided"
    )
    straight = judge(bend, -margin, margin)
    turned = "upwards" if bend.value > 0 else "downwards"
    numbers["bent"] = {"holds": "hardly", "does not hold": turned}.get(straight, f"{turned} or hardly")
    return verdict, need, numbers


def _most(needs: Iterable[int | None]) -> int | None:
    """The largest; None if one is not known."""
    known = list(needs)
    return None if None in known or not known else max(one for one in known if one is not None)


def together(said: list[str], least: float) -> str:
    """One verdict for several series."""
    needed = least * len(said)
    if sum(one == "holds" for one in said) >= needed:
        return "holds"
    return "does not hold" if sum(one != "does not hold" for one in said) < needed else "undecided"


def _told(where: list[str], own: Mapping[str, Any], verdict: str, need: int | None) -> str:
    """The bend of one series, with what sets it apart; for an open one, what would decide it."""
    told = "" if own.get("bend_low") is None else f" ({own['bend_low']:+.2f} to {own['bend_high']:+.2f})"
    if told and verdict == "undecided":
        told = f"{told[:-1]}; open, {f'some {need} seeds' if need else 'on the limit'})"
    place = " and ".join(where).replace("d_model", "d").replace("n_facts", "T").replace("=", " = ")
    return f"{own['bend']:+.2f}{told}" + (f" at {place}" if place else "")


def _judged(
    series: Sequence[list[Spot]], law: str, margin: float
) -> tuple[list[str], list[int | None], list[dict[str, Any]]]:
    """Verdicts, seeds that would decide, and numbers, of all series with enough points."""
    findings = [_series(used, law, margin, len(series)) for used in series]
    known = [found for found in findings if found is not None]
    return [verdict for verdict, _, _ in known], [need for _, need, _ in known], [own for _, _, own in known]


def decide(table: Table, spec: Mapping[str, Any]) -> Verdict:
    law, margin, least = text_of(spec, "law"), number_of(spec, "margin", 0.1), number_of(spec, "least", 1.0)
    other = number_of(spec, "beside", 0.2)
    if law not in _DEGREES:
        raise UnknownName("law of a test", law, _DEGREES)
    common = text_list(spec, "where")
    places = split(table, text_list(spec, "by"), common)
    series = [[spot for spot in points_of(table, spec, where) if not spot.saturated] for where in places]
    said, needs, findings = _judged(series, law, margin)
    numbers: dict[str, Any] = {}
    for own in findings:
        numbers |= own
    numbers |= {
        "series": len(said),
        "holding": said.count("holds"),
        "failing": said.count("does not hold"),
        "open": said.count("undecided"),
        "margin": margin,
    }
    for name in ("bend", "slope", "exponent"):
        values = [own[name] for own in findings if own.get(name) is not None]
        if values:
            numbers |= {f"{name}_min": min(values), f"{name}_max": max(values)}
    ends = [abs(own[name]) for own in findings for name in ("bend_low", "bend_high") if own.get(name) is not None]
    numbers["widest"] = max(ends, default=None)
    known = [where[len(common) :] for where, used in zip(places, series, strict=True) if len(used) >= _DEGREES[law] + 2]
    numbers["each"] = "; ".join(
        _told(where, own, one, need) for where, own, one, need in zip(known, findings, said, needs, strict=True)
    )
    if not said:
        return Verdict("undecided", "too few points below saturation for this law", numbers)
    beside, _, _ = _judged(series, law, other)
    numbers |= {
        "beside_margin": other,
        "beside_verdict": together(beside, least),
        "beside_holding": beside.count("holds"),
    }
    why = f"{law} in {numbers['holding']} of {len(said)} series, not in {numbers['failing']}"
    if "undecided" in said:
        numbers["seeds_needed"] = _most(need for one, need in zip(said, needs, strict=True) if one == "undecided")
        told = "one seed a point has no spread, or it lies on the limit"
        if numbers["seeds_needed"]:
            told = f"about {numbers['seeds_needed']} seeds a point would decide"
        why += f", and {numbers['open']} open: {told}"
    return Verdict(together(said, least), why, numbers)
