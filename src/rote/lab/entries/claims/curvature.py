"""Does the curve bend upwards?

A parabola is fitted to the unsaturated points. With `bends = "up"` the claim holds if the interval of its curvature
lies above zero, fails if it lies below, and is undecided across. With `bends = "not up"` it fails if the interval lies
above zero, and holds otherwise.

Numbers: curvature(_low, _high), points, bend ("up", "down" or "none that can be told").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rote.errors import UnknownName
from rote.lab.entries.claims._base import Verdict, text_of
from rote.lab.entries.claims.law import curves_of, points_of
from rote.lab.entries.table import Table

__all__ = ["KEYS", "decide"]

KEYS = ("x", "y", "where", "bends", "saturation")


def decide(table: Table, spec: Mapping[str, Any]) -> Verdict:
    bends = text_of(spec, "bends")
    if bends not in ("up", "not up"):
        raise UnknownName("way to bend", bends, ("up", "not up"))
    places = points_of(table, spec)
    points = sum(not spot.saturated for spot in places)
    curve = curves_of(places, ["quadratic"]).get("quadratic")
    if curve is None:
        return Verdict("undecided", "too few points below saturation for a parabola", {"points": points})
    low, high = curve.intervals[2]
    bend = "up" if low > 0 else "down" if high < 0 else "none that can be told"
    numbers = {
        "curvature": float(curve.params[2]),
        "curvature_low": low,
        "curvature_high": high,
        "points": points,
        "bend": bend,
    }
    if bends == "up":
        verdict = {"up": "holds", "down": "does not hold"}.get(bend, "undecided")
    else:
        verdict = "does not hold" if bend == "up" else "holds"
    return Verdict(verdict, f"bend: {bend}", numbers)
