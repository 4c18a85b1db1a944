"""Is one way of measuring ahead of another?

Rows that meet `ours` are matched with rows that meet `theirs` by the columns `match`. The claim holds if y of ours is
at least `factor` times theirs in the share `least` of the pairs.

Numbers: pairs, ahead, ratio (geometric mean), ratio_min, ratio_max, difference (mean), difference_min, difference_max,
ours and theirs (means).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rote.lab.entries.claims._base import Verdict, number_of, text_list, text_of
from rote.lab.entries.table import Table

__all__ = ["KEYS", "decide"]

KEYS = ("y", "ours", "theirs", "match", "factor", "least", "saturation")


def decide(table: Table, spec: Mapping[str, Any]) -> Verdict:
    y, match = text_of(spec, "y"), text_list(spec, "match")
    top = number_of(spec, "saturation", math.inf)

    def by_key(name: str) -> dict[tuple[Any, ...], float]:
        rows = table.select(text_list(spec, name))
        return {tuple(row.get(key) for key in match): float(row[y]) for row in rows if row.get(y) is not None}

    ours, theirs = by_key("ours"), by_key("theirs")
    pairs = [(ours[key], theirs[key]) for key in ours if key in theirs and min(ours[key], theirs[key]) < top]
    if not pairs:
        return Verdict("undecided", "nothing to compare", {"pairs": 0})
    factor = number_of(spec, "factor", 1.0)
    ahead = sum(one >= factor * other for one, other in pairs)
    ratios = [one / other for one, other in pairs if one > 0 and other > 0]
    gaps = [one - other for one, other in pairs]
    numbers: dict[str, Any] = {
        "pairs": len(pairs),
        "ahead": ahead,
        "difference": sum(gaps) / len(gaps),
        "difference_min": min(gaps),
        "difference_max": max(gaps),
        "ours": sum(one for one, _ in pairs) / len(pairs),
        "theirs": sum(other for _, other in pairs) / len(pairs),
    }
    if ratios:
        numbers |= {
            "ratio": math.exp(sum(math.log(one) for one in ratios) / len(ratios)),
            "ratio_min": min(ratios),
            "ratio_max": max(ratios),
        }
    verdict = "holds" if ahead >= number_of(spec, "least", 1.0) * len(pairs) else "does not hold"
    return Verdict(verdict, f"ahead in {ahead} of {len(pairs)} pairs", numbers)
