"""Does the slope change at a given place?

Two straight lines that meet at x = `at` are fitted beside one straight line. The claim holds if leaving points out
predicts them better with the kink, and the slope beyond it is less than `factor` times the slope before it.

Numbers: slope_before, slope_after, ratio, cv_line, cv_kink, points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rote.analyse.fit.points import variances
from rote.data._arrays import FloatArray
from rote.lab.entries.claims._base import Verdict, number_of
from rote.lab.entries.claims.law import points_of
from rote.lab.entries.table import Table

__all__ = ["KEYS", "decide"]

KEYS = ("x", "y", "where", "at", "factor", "saturation")


def _solve(design: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    root = np.sqrt(weights)
    return np.asarray(np.linalg.lstsq(design * root[:, None], y * root, rcond=None)[0])


def _left_out(design: FloatArray, y: FloatArray, weights: FloatArray) -> float:
    errors = []
    for i in range(len(y)):
        keep = np.arange(len(y)) != i
        error = y[i] - design[i] @ _solve(design[keep], y[keep], weights[keep])
        errors.append(weights[i] * float(error) ** 2)
    return math.sqrt(sum(errors) / len(errors))


def decide(table: Table, spec: Mapping[str, Any]) -> Verdict:
    at = number_of(spec, "at")
    used = [spot for spot in points_of(table, spec) if not spot.saturated]
    if sum(spot.x < at for spot in used) < 2 or sum(spot.x > at for spot in used) < 2 or len(used) < 5:
        return Verdict("undecided", f"too few points below saturation on both sides of {at:g}", {"points": len(used)})
    x = np.array([spot.x for spot in used])
    y = np.array([spot.mean for spot in used])
    weights = 1 / np.array(variances(used))
    line = np.stack([np.ones_like(x), x], 1)
    bent = np.stack([np.ones_like(x), np.minimum(x, at), np.maximum(x - at, 0)], 1)
    before, after = (float(value) for value in _solve(bent, y, weights)[1:])
    numbers = {
        "slope_before": before,
        "slope_after": after,
        "ratio": after / before if before else None,
        "cv_line": _left_out(line, y, weights),
        "cv_kink": _left_out(bent, y, weights),
        "points": len(used),
    }
    good = numbers["cv_kink"] < numbers["cv_line"] and after < number_of(spec, "factor", 1.0) * before  # type: ignore[operator]
    return Verdict("holds" if good else "does not hold", f"slopes {before:.3g} and {after:.3g}", numbers)
