"""Is the exponent of a power law within given limits?

A power law is fitted to every series; its interval (bootstrap, misfit counted as noise) decides: inside [at_least,
at_most] it holds, on one side it does not, across it is undecided. For an exponent p with a margin, give p - 0.1 and
p + 0.1. The claim holds if the share `least` of the series do.

Numbers: exponent(_low, _high) of the last series, and logarithmic, the slope of logarithms, in which small values count
as much as large ones; exponent_min, exponent_max, logarithmic_min, logarithmic_max, series, inside, open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rote.analyse.fit.laws import Curve, fit_law, get_law
from rote.analyse.fit.points import variances
from rote.lab.entries.claims._base import Verdict, number_of, text_list
from rote.lab.entries.claims._intervals import Estimate, judge, spelled
from rote.lab.entries.claims.law import points_of, split, together
from rote.lab.entries.table import Spot, Table

__all__ = ["KEYS", "curves_of", "decide"]

KEYS = ("x", "y", "where", "by", "at_least", "at_most", "least", "saturation")


def curves_of(found: list[Spot], laws: list[str]) -> dict[str, Curve]:
    """Every law that so many unsaturated points can be fitted with, and tested on."""
    used = [spot for spot in found if not spot.saturated]
    x, y = np.array([spot.x for spot in used]), np.array([spot.mean for spot in used])
    curves = {}
    for law in map(get_law, laws):
        if len(used) < law.size + 2 or (law.name == "power" and (x.min() <= 0 or y.min() <= 0)):
            continue
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            curves[law.name] = fit_law(law, x, y, np.array(variances(used)), rng=np.random.default_rng(0))
    return curves


def decide(table: Table, spec: Mapping[str, Any]) -> Verdict:
    limits = number_of(spec, "at_least"), number_of(spec, "at_most")
    said, values, logarithmic, missing = [], [], [], ""
    numbers: dict[str, Any] = {}
    series = split(table, text_list(spec, "by"), text_list(spec, "where"))
    for where in series:
        points = points_of(table, spec, where)
        curve = curves_of(points, ["power"]).get("power")
        if curve is None:
            continue
        found = Estimate(float(curve.params[1]), *curve.intervals[1], seeds=min(len(spot.values) for spot in points))
        values.append(found.value)
        said.append(judge(found, *limits, among=len(series)))
        missing = spelled(said[-1], found, *limits) or missing
        used = [spot for spot in points if not spot.saturated]
        logs = np.log([[spot.x, spot.mean] for spot in used])
        logarithmic.append(float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0]))
        numbers |= found.numbers("exponent")
    if not values:
        return Verdict("undecided", "too few points for a power law", {"series": 0})
    inside = said.count("holds")
    numbers |= {
        "series": len(values),
        "inside": inside,
        "open": said.count("undecided"),
        "exponent_min": min(values),
        "exponent_max": max(values),
        "logarithmic": logarithmic[-1],
        "logarithmic_min": min(logarithmic),
        "logarithmic_max": max(logarithmic),
    }
    why = f"{inside} of {len(values)} exponents inside" + (f"; {missing}" if missing else "")
    return Verdict(together(said, number_of(spec, "least", 1.0)), why, numbers)
