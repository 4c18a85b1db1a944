"""Is one way of measuring ahead of another?

Rows that meet `ours` are matched with rows that meet `theirs` by the columns `match`. A pair is ahead if the interval
of (ours - `factor` times theirs) over the seeds lies above zero, behind if it lies below, and open across. Pairs with
one seed have no interval: five or more of them that all fall on one side count as that side (by chance that side would
come up less than once in twenty), otherwise they are open. The claim holds if the share `least` of the pairs (all) are
ahead.

Numbers: pairs, ahead, open, ratio (geometric mean), ratio_min, ratio_max, difference (mean), difference_min,
difference_max, ours and theirs (means).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rote.lab.entries.claims._base import Verdict, number_of, text_list, text_of
from rote.lab.entries.claims._intervals import difference, judge, spelled
from rote.lab.entries.claims.law import together
from rote.lab.entries.table import Table

__all__ = ["KEYS", "decide"]

KEYS = ("y", "ours", "theirs", "match", "factor", "least", "saturation")
_ENOUGH = 5


def decide(table: Table, spec: Mapping[str, Any]) -> Verdict:
    y, match = text_of(spec, "y"), text_list(spec, "match")
    top = number_of(spec, "saturation", math.inf)

    def by_key(name: str) -> dict[tuple[Any, ...], list[float]]:
        found: dict[tuple[Any, ...], list[float]] = {}
        for record in table.seeds(text_list(spec, name)):
            if record.get(y) is not None:
                found.setdefault(tuple(record.get(key) for key in match), []).append(float(record[y]))
        return found

    ours, theirs = by_key("ours"), by_key("theirs")
    seeds = [(ours[key], theirs[key]) for key in ours if key in theirs]
    means = [(sum(one) / len(one), sum(other) / len(other)) for one, other in seeds]
    kept = [index for index, pair in enumerate(means) if min(pair) < top]
    seeds, pairs = [seeds[index] for index in kept], [means[index] for index in kept]
    if not pairs:
        return Verdict("undecided", "nothing to compare", {"pairs": 0})
    factor = number_of(spec, "factor", 1.0)
    found = [difference(one, other, factor) for one, other in seeds]
    said = [judge(one, at_least=0.0, among=len(found)) for one in found]
    single = [index for index, one in enumerate(found) if one.low is None]
    signs = {found[index].value >= 0 for index in single}
    if len(single) >= _ENOUGH and len(signs) == 1:
        for index in single:
            said[index] = "holds" if signs == {True} else "does not hold"
    ratios = [one / other for one, other in pairs if one > 0 and other > 0]
    gaps = [one - other for one, other in pairs]
    numbers: dict[str, Any] = {
        "pairs": len(pairs),
        "ahead": sum(one >= factor * other for one, other in pairs),
        "open": said.count("undecided"),
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
    missing = [spelled(word, one, at_least=0.0) for word, one in zip(said, found, strict=True) if word == "undecided"]
    why = f"ahead in {said.count('holds')} of {len(pairs)} pairs, behind in {said.count('does not hold')}"
    return Verdict(
        together(said, number_of(spec, "least", 1.0)), why + (f"; open: {missing[0]}" if missing else ""), numbers
    )
