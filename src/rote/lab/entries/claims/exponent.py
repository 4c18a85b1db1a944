"""Is the exponent of a power law within given limits?

The claim holds if the exponent lies in [at_least, at_most] for the share `least` of the series, and is undecided if an
interval reaches across a limit in so many of them that it could be otherwise.

Numbers: exponent(_low, _high) of the last series, exponent_min, exponent_max, series, inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rote.lab.entries.claims._base import Verdict, number_of, text_list
from rote.lab.entries.claims.law import curves_of, points_of, split
from rote.lab.entries.table import Table

__all__ = ["KEYS", "decide"]

KEYS = ("x", "y", "where", "by", "at_least", "at_most", "least", "saturation")


def decide(table: Table, spec: Mapping[str, Any]) -> Verdict:
    low, high = number_of(spec, "at_least"), number_of(spec, "at_most")
    inside, open_, values = 0, 0, []
    numbers: dict[str, Any] = {}
    for where in split(table, text_list(spec, "by"), text_list(spec, "where")):
        curve = curves_of(points_of(table, spec, where), ["power"]).get("power")
        if curve is None:
            continue
        value, span = float(curve.params[1]), curve.intervals[1]
        values.append(value)
        inside += low <= value <= high
        open_ += any(span[0] < limit < span[1] for limit in (low, high))
        numbers |= {"exponent": value, "exponent_low": span[0], "exponent_high": span[1]}
    if not values:
        return Verdict("undecided", "too few points for a power law", {"series": 0})
    numbers |= {"series": len(values), "inside": inside, "exponent_min": min(values), "exponent_max": max(values)}
    least = number_of(spec, "least", 1.0) * len(values)
    sure = inside - open_ >= least or inside + open_ < least
    verdict = ("holds" if inside >= least else "does not hold") if sure or not open_ else "undecided"
    if not sure and inside >= least:
        verdict = "undecided"
    return Verdict(verdict, f"{inside} of {len(values)} exponents from {low:g} to {high:g}", numbers)
