"""Does the slope fall at a given place?

Two straight lines that meet at x = `at` are fitted to the means. The claim holds if the interval of (slope beyond) -
`factor` times (slope before) lies below zero, fails if it lies above, and is undecided across; without seeds the value
decides nothing. Beside it stands what leaving points out says: whether the kink predicts them better than one line.

Numbers: slope_before(_low, _high), slope_after(_low, _high), change(_low, _high), ratio, cv_line, cv_kink, points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rote.data._arrays import FloatArray
from rote.lab.entries.claims._base import Verdict, number_of
from rote.lab.entries.claims._intervals import judge, linear, spelled
from rote.lab.entries.claims.law import points_of
from rote.lab.entries.table import Table

__all__ = ["KEYS", "decide"]

KEYS = ("x", "y", "where", "at", "factor", "saturation")


def _left_out(design: FloatArray, y: FloatArray) -> float:
    errors = []
    for i in range(len(y)):
        keep = np.arange(len(y)) != i
        errors.append(float(y[i] - design[i] @ np.linalg.lstsq(design[keep], y[keep], rcond=None)[0]) ** 2)
    return math.sqrt(sum(errors) / len(errors))


def decide(table: Table, spec: Mapping[str, Any]) -> Verdict:
    at = number_of(spec, "at")
    used = [spot for spot in points_of(table, spec) if not spot.saturated]
    if sum(spot.x < at for spot in used) < 2 or sum(spot.x > at for spot in used) < 2 or len(used) < 5:
        return Verdict("undecided", f"too few points below saturation on both sides of {at:g}", {"points": len(used)})
    x = np.array([spot.x for spot in used])
    y = np.array([spot.mean for spot in used])
    line = np.stack([np.ones_like(x), x], 1)
    bent = np.stack([np.ones_like(x), np.minimum(x, at), np.maximum(x - at, 0)], 1)
    solve = np.linalg.pinv(bent)
    before, after = linear(used, solve[1]), linear(used, solve[2])
    change = linear(used, solve[2] - number_of(spec, "factor", 1.0) * solve[1])
    verdict = judge(change, at_most=0.0)
    numbers = {
        **before.numbers("slope_before"),
        **after.numbers("slope_after"),
        **change.numbers("change"),
        "ratio": after.value / before.value if before.value else None,
        "cv_line": _left_out(line, y),
        "cv_kink": _left_out(bent, y),
        "points": len(used),
    }
    missing = spelled(verdict, change, at_most=0.0)
    why = f"slopes {before.value:.3g} and {after.value:.3g}" + (f"; {missing}" if missing else "")
    return Verdict(verdict, why, numbers)
