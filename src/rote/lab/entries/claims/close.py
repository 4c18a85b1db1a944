"""Are the published points met?

Rows that meet `where` are matched with published ones by the columns `match`. The claim holds if every difference in
`y` is within `tolerance`.

Numbers: points, within, worst (with its sign), worst_PLACE for each matched column, mean (of the differences), covered
(published points inside our intervals).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rote.lab.entries.claims._base import Verdict, number_of, text_list, text_of
from rote.lab.entries.table import Table

__all__ = ["KEYS", "decide"]

KEYS = ("y", "where", "match", "tolerance")
_MATCH = ("n_heads", "d_model", "d_head", "vocab")


def decide(table: Table, spec: Mapping[str, Any]) -> Verdict:
    y, tolerance = text_of(spec, "y"), number_of(spec, "tolerance", 0.02)
    match = text_list(spec, "match") or list(_MATCH)
    printed = {
        tuple(row.get(name) for name in match): row[y]
        for row in table.rows
        if row["source"] == "published" and row.get(y) is not None
    }
    pairs = []
    for row in table.select([*text_list(spec, "where"), "source!=published"]):
        key = tuple(row.get(name) for name in match)
        if key in printed and row.get(y) is not None:
            low, high = row.get(f"{y}_low"), row.get(f"{y}_high")
            covered = low is not None and high is not None and low <= printed[key] <= high
            pairs.append((float(row[y] - printed[key]), covered, key))
    if not pairs:
        return Verdict("undecided", "no published point was measured", {"points": 0, "within": 0})
    worst = max(pairs, key=lambda item: abs(item[0]))
    within = sum(abs(item[0]) <= tolerance for item in pairs)
    numbers: dict[str, Any] = {
        "points": len(pairs),
        "within": within,
        "tolerance": tolerance,
        "worst": worst[0],
        "worst_size": abs(worst[0]),
        "mean": sum(item[0] for item in pairs) / len(pairs),
        "covered": sum(item[1] for item in pairs),
        **{f"worst_{name}": value for name, value in zip(match, worst[2], strict=True)},
    }
    verdict = "holds" if within == len(pairs) else "does not hold"
    return Verdict(verdict, f"{within} of {len(pairs)} published points within {tolerance:g}", numbers)
