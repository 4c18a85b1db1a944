"""Does y grow with x, everywhere or up to a place?

Points are put in order of x, for each series that `by` tells apart. From one x to the next y may fall by `slack` of its
range, and it must have grown from the first to the last. With `until`, that is asked only for x up to there, and beyond
it y may neither grow nor fall by more than `plateau` of what it has gained before. Every step is judged by the interval
of its difference over seeds: a series holds if all intervals keep to this, fails if one lies beyond, else it is open.

Numbers: series, growing, open, at_first, at_last, at_until, gain_before, gain_after, gain_after_share (of the last
series).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from rote.lab.entries.claims._base import Verdict, number_of, text_list, text_of
from rote.lab.entries.claims._intervals import difference, judge, spelled
from rote.lab.entries.claims.law import split, together
from rote.lab.entries.table import Table, spots

__all__ = ["KEYS", "decide"]

KEYS = ("x", "y", "where", "by", "slack", "until", "plateau")


def decide(table: Table, spec: Mapping[str, Any]) -> Verdict:
    x, y = text_of(spec, "x"), text_of(spec, "y")
    slack, until = number_of(spec, "slack", 0.05), spec.get("until")
    numbers: dict[str, Any] = {}
    series: list[str] = []
    missing = ""
    for where in split(table, text_list(spec, "by"), text_list(spec, "where")):
        points = spots(table, x, y, where, saturation=None)
        before = [spot for spot in points if until is None or spot.x <= float(until)]
        after = [spot for spot in points if until is not None and spot.x >= float(until)]
        if len(before) < 2 or (until is not None and len(after) < 2):
            continue
        values = [spot.mean for spot in before]
        reach, gain = max(values) - min(values), values[-1] - values[0]
        asked = [(difference(b.values, a.values), (-slack * reach, float("inf"))) for a, b in pairwise(before)] + [
            (difference(before[-1].values, before[0].values), (0.0, float("inf")))
        ]
        numbers |= {"at_first": values[0], "at_until": values[-1], "at_last": points[-1].mean, "gain_before": gain}
        if until is not None:
            late = difference(after[-1].values, after[0].values)
            numbers |= {"gain_after": late.value, "gain_after_share": late.value / gain if gain else None}
            room = abs(number_of(spec, "plateau", 0.15) * gain)
            asked.append((late, (-room, room)))
        said = [judge(found, *limits, among=len(asked)) for found, limits in asked]
        series.append("does not hold" if "does not hold" in said else "undecided" if "undecided" in said else "holds")
        for word, (found, limits) in zip(said, asked, strict=True):
            missing = spelled(word, found, *limits) or missing
    numbers |= {"series": len(series), "growing": series.count("holds"), "open": series.count("undecided")}
    if not series:
        return Verdict("undecided", "too few points", numbers)
    verdict = together(series, 1.0)
    why = f"{numbers['growing']} of {len(series)} series do"
    return Verdict(verdict, why + (f"; {missing}" if verdict == "undecided" and missing else ""), numbers)
