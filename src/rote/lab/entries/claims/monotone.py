"""Does y grow with x, everywhere or up to a place?

Rows that meet `where` are put in order of x, for each series that `by` tells apart. From one x to the next y may fall
by `slack` of its range. With `until`, growth is asked only for x up to there, and beyond it y may neither grow nor fall
by more than `plateau` of what it has gained before.

Numbers: series, growing, at_first, at_last, at_until, gain_before, gain_after, gain_after_share (of the last series).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from rote.lab.entries.claims._base import Verdict, number_of, text_list, text_of
from rote.lab.entries.claims.law import split
from rote.lab.entries.table import Table, spots

__all__ = ["KEYS", "decide"]

KEYS = ("x", "y", "where", "by", "slack", "until", "plateau")


def decide(table: Table, spec: Mapping[str, Any]) -> Verdict:
    x, y = text_of(spec, "x"), text_of(spec, "y")
    slack, until = number_of(spec, "slack", 0.05), spec.get("until")
    numbers: dict[str, Any] = {"series": 0, "growing": 0}
    for where in split(table, text_list(spec, "by"), text_list(spec, "where")):
        points = spots(table, x, y, where, saturation=None)
        before = [spot for spot in points if until is None or spot.x <= float(until)]
        after = [spot for spot in points if until is not None and spot.x >= float(until)]
        if len(before) < 2 or (until is not None and len(after) < 2):
            continue
        values = [spot.mean for spot in before]
        reach = max(values) - min(values)
        good = values[-1] > values[0] and all(b >= a - slack * reach for a, b in pairwise(values))
        gain = values[-1] - values[0]
        numbers |= {"at_first": values[0], "at_until": values[-1], "at_last": points[-1].mean, "gain_before": gain}
        if until is not None:
            late = after[-1].mean - after[0].mean
            numbers |= {"gain_after": late, "gain_after_share": late / gain if gain else None}
            good = good and abs(late) <= number_of(spec, "plateau", 0.15) * gain
        numbers["series"] += 1
        numbers["growing"] += good
    if not numbers["series"]:
        return Verdict("undecided", "too few points", numbers)
    verdict = "holds" if numbers["growing"] == numbers["series"] else "does not hold"
    return Verdict(verdict, f"{numbers['growing']} of {numbers['series']} series do", numbers)
