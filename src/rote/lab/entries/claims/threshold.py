"""Is a column on one side of a number?

A row is inside if the interval of `y` over its seeds lies from `at_least` to `at_most`, outside if it lies beyond, and
open across. A row without an interval, which is a count or an exact result, is judged by its value; with
`spread = true`, for what chance has a part in, it is open. The claim holds if the share `least` of the rows (all) are
inside, and fails if too many are outside for that.

Numbers: rows, inside, open, mean, smallest, largest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rote.lab.entries.claims._base import Verdict, number_of, text_list, text_of
from rote.lab.entries.claims._intervals import Estimate, judge, spelled
from rote.lab.entries.claims.law import together
from rote.lab.entries.table import Table

__all__ = ["KEYS", "decide"]

KEYS = ("y", "where", "at_least", "at_most", "least", "spread")


def decide(table: Table, spec: Mapping[str, Any]) -> Verdict:
    y = text_of(spec, "y")
    limits = number_of(spec, "at_least", -math.inf), number_of(spec, "at_most", math.inf)
    rows = [row for row in table.select(text_list(spec, "where")) if row.get(y) is not None]
    if not rows:
        return Verdict("undecided", "no rows", {"rows": 0})
    found = []
    for row in rows:
        value = float(row[y])
        low, high = row.get(f"{y}_low"), row.get(f"{y}_high")
        seeds = int(row.get("seeds") or 1)
        ends: tuple[float | None, float | None] = (value, value)
        if low is not None and high is not None:
            ends = float(low), float(high)
        elif spec.get("spread", False):
            ends = None, None
        found.append(Estimate(value, *ends, seeds, max(1, seeds - 1)))
    said = [judge(one, *limits, among=len(found)) for one in found]
    gaps = [spelled(word, one, *limits) for word, one in zip(said, found, strict=True)]
    missing = next((gap for gap in gaps if gap), "")
    values = [one.value for one in found]
    numbers = {
        "rows": len(rows),
        "inside": said.count("holds"),
        "open": said.count("undecided"),
        "mean": sum(values) / len(values),
        "smallest": min(values),
        "largest": max(values),
    }
    why = f"{numbers['inside']} of {len(rows)} rows inside" + (f"; {missing}" if missing else "")
    return Verdict(together(said, number_of(spec, "least", 1.0)), why, numbers)
