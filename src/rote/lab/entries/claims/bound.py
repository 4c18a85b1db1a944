"""How does what was measured stand to a theorem's number?

`y` counts facts. The claim holds if y divided by the bound of `theorem` at the row's shape is from `at_least`
to `at_most` in all rows. With `slope = x` the slopes of straight lines against x are compared instead: saturated
shares are left out, and shares become facts beyond guessing, or with `guessing = false` all facts that were right. The
ratio of slopes has an interval over seeds: inside the limits the claim holds, on one side it does not, across it is
undecided.

Numbers: rows, inside, ratio (geometric mean), ratio_min, ratio_max; or slope_measured, slope_bound, ratio(_low, _high).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rote.errors import UsageError
from rote.lab.entries.bounds import bound_at
from rote.lab.entries.claims._base import Verdict, number_of, text_list, text_of
from rote.lab.entries.claims._intervals import Estimate, judge, linear, spelled
from rote.lab.entries.table import Spot, Table

__all__ = ["KEYS", "decide"]

KEYS = ("y", "where", "theorem", "at_least", "at_most", "slope", "saturation", "guessing")
_SHARES = ("published_metric", "share_of_facts")


def decide(table: Table, spec: Mapping[str, Any]) -> Verdict:
    y, theorem = text_of(spec, "y"), text_of(spec, "theorem")
    low, high = number_of(spec, "at_least", 0.0), number_of(spec, "at_most", math.inf)
    top = number_of(spec, "saturation", 0.95)
    pairs = []
    for row in table.select(text_list(spec, "where")):
        if row.get(y) is None or (y in _SHARES and row[y] >= top):
            continue
        bound = bound_at(row, theorem)
        if bound is not None and bound.facts:
            pairs.append((row, _facts(row, y, spec), float(bound.facts)))
    if "slope" in spec:
        return _slopes(table, spec, pairs, (low, high))
    if not pairs:
        return Verdict("undecided", f"{theorem} says nothing about these shapes", {"rows": 0})
    ratios = [measured / said for _, measured, said in pairs]
    inside = sum(low <= ratio <= high for ratio in ratios)
    numbers = {
        "rows": len(ratios),
        "inside": inside,
        "ratio": math.exp(sum(math.log(max(ratio, 1e-300)) for ratio in ratios) / len(ratios)),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
    }
    return Verdict("holds" if inside == len(ratios) else "does not hold", f"{inside} of {len(ratios)}", numbers)


def _facts(row: Mapping[str, Any], y: str, spec: Mapping[str, Any]) -> float:
    """Facts remembered: of a share, what guessing would bring is taken off, unless the test says otherwise."""
    if y not in _SHARES:
        return float(row[y])
    if not row.get("n_facts") or not row.get("vocab"):
        raise UsageError("shares become facts only where n_facts and vocab are known.")
    chance = 1 / row["vocab"] if spec.get("guessing", True) else 0.0
    return float((row[y] - chance) / (1 - chance) * row["n_facts"])


def _slopes(
    table: Table, spec: Mapping[str, Any], pairs: list[tuple[dict[str, Any], float, float]], limits: tuple[float, float]
) -> Verdict:
    x, y = text_of(spec, "slope"), text_of(spec, "y")
    if len({row[x] for row, _, _ in pairs}) < 2:
        return Verdict("undecided", "too few points below saturation", {"rows": len(pairs)})
    said = float(np.polyfit([float(row[x]) for row, _, _ in pairs], [value for _, _, value in pairs], 1)[0])
    kept = {float(row[x]) for row, _, _ in pairs}
    held: dict[float, list[float]] = {}
    for record in table.seeds(text_list(spec, "where")):
        if record.get(y) is not None and float(record[x]) in kept:
            held.setdefault(float(record[x]), []).append(_facts(record, y, spec))
    used = [Spot(place, tuple(values), False) for place, values in sorted(held.items())]
    place = np.array([spot.x for spot in used])
    weights = (place - place.mean()) / float(((place - place.mean()) ** 2).sum())
    slope = linear(used, weights)
    found = linear(used, weights / said) if said else Estimate(math.inf)
    verdict = judge(found, *limits)
    numbers = {"rows": len(pairs), **slope.numbers("slope_measured"), "slope_bound": said, **found.numbers("ratio")}
    missing = spelled(verdict, found, *limits)
    return Verdict(verdict, f"slopes are as {found.value:.3g} to 1" + (f"; {missing}" if missing else ""), numbers)
