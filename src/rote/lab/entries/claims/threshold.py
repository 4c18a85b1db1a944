"""Is a column on one side of a number?

The claim holds if `y` is from `at_least` to `at_most` in the share `least` of the rows.

Numbers: rows, inside, mean, smallest, largest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rote.lab.entries.claims._base import Verdict, number_of, text_list, text_of
from rote.lab.entries.table import Table

__all__ = ["KEYS", "decide"]

KEYS = ("y", "where", "at_least", "at_most", "least")


def decide(table: Table, spec: Mapping[str, Any]) -> Verdict:
    y = text_of(spec, "y")
    low, high = number_of(spec, "at_least", -math.inf), number_of(spec, "at_most", math.inf)
    values = [float(row[y]) for row in table.select(text_list(spec, "where")) if row.get(y) is not None]
    if not values:
        return Verdict("undecided", "no rows", {"rows": 0})
    inside = sum(low <= value <= high for value in values)
    numbers = {
        "rows": len(values),
        "inside": inside,
        "mean": sum(values) / len(values),
        "smallest": min(values),
        "largest": max(values),
    }
    verdict = "holds" if inside >= number_of(spec, "least", 1.0) * len(values) else "does not hold"
    return Verdict(verdict, f"{inside} of {len(values)} rows inside", numbers)
