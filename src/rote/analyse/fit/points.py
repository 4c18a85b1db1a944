"""From rows of a journal to points of a law: means over seeds, with variances, saturation set aside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rote.errors import DataError, UnknownName, UsageError
from rote.measurement.capacity import student_interval
from rote.measurement.cell import Cell

__all__ = ["Point", "Spot", "gather", "is_number", "variances"]

_SHARES = ("share", "published")
_SHAPE = (
    "n_heads", "d_model", "d_head", "context", "vocab", "n_layers", "d_mlp", "gated", "task", "by", "recipe", "family",
    "recall", "steps", "rate", "sharing", "dtype", "n_facts",
)  # fmt: skip
_PRIOR = 4.0
"""Degrees of freedom that the common variance counts for."""


@dataclass(frozen=True)
class Spot:
    """One x with the values of its seeds."""

    x: float
    values: tuple[float, ...]
    saturated: bool

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)


@dataclass(frozen=True)
class Point(Spot):
    """The same, with what the theorems need to know of it."""

    cell: Cell
    """The cell behind it, for the bounds at this x."""
    n_facts: int | None = None

    def interval(self, level: float) -> tuple[float, float] | None:
        return student_interval(self.values, level)

    def to_dict(self) -> dict[str, Any]:
        return {"x": self.x, "mean": self.mean, "values": list(self.values), "saturated": self.saturated}


def gather(rows: Sequence[Mapping[str, Any]], x: str, y: str, *, saturation: float = 0.95) -> list[Point]:
    """Points by x. Rows that differ in anything but x and the seed are refused: they do not lie on one law.

    Saturated, and so left out of fits: a share of facts of `saturation` or more, or a capacity that is every context
    there is.
    """
    done = [row for row in rows if row.get("status") == "done"]
    if not done:
        raise DataError("no row is done, so there is nothing to fit; run the sweep, or keep more rows.")
    known = {name for row in done for name in row}
    for name in (x, y):
        if name not in known:
            raise UnknownName("column", name, known)
        wrong = [row[name] for row in done if not is_number(row.get(name))]
        if wrong:
            raise UsageError(
                f"the column {name} holds {wrong[0]!r}, which is no number; {len(wrong)} such rows in all."
            )
    if x == y:
        raise UsageError(f"x and y are both {x}; a law needs two columns.")
    tied = {"d_head"} if x == "d_model" and all(row.get("d_head") is None for row in done) else set()
    for name in _SHAPE:
        if name in (x, y) or name in tied or name not in known:
            continue
        if name == "n_facts" and x in ("vocab", "context"):
            continue
        seen = {str(row.get(name)) for row in done}
        if len(seen) > 1:
            some = ", ".join(sorted(seen)[:3])
            raise UsageError(
                f"the rows differ in {name} too ({some}{', ...' if len(seen) > 3 else ''}), so they do not lie on one "
                f"law; keep one of them, with the condition {name}=..."
            )
    groups: dict[float, list[Mapping[str, Any]]] = {}
    for row in done:
        groups.setdefault(float(row[x]), []).append(row)
    return [_point(place, members, y, saturation) for place, members in sorted(groups.items())]


def is_number(value: object) -> bool:
    """A finite number, and no truth value."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _point(place: float, members: Sequence[Mapping[str, Any]], y: str, saturation: float) -> Point:
    values = tuple(float(row[y]) for row in members)
    # A capacity is searched for, so its cell has no number of facts; recall of vectors cannot be without one.
    left = () if members[0].get("task") == "recall" else ("n_facts",)
    cell = Cell.from_dict({**{k: members[0].get(k) for k in _SHAPE if k in members[0] and k not in left}})
    full = False
    if y in _SHARES:
        full = sum(values) / len(values) >= saturation
    elif y == "capacity":
        full = any(value >= cell.most for value in values)
    facts = members[0].get("n_facts")
    return Point(place, values, full, cell, facts if isinstance(facts, int) else None)


def variances(points: Sequence[Spot]) -> list[float]:
    """Variance of every mean: the point's own, shrunk towards the common one; ones where no point has two seeds."""
    spread = []
    for point in points:
        spread.append(sum((value - point.mean) ** 2 for value in point.values))
    free = [len(point.values) - 1 for point in points]
    if sum(free) == 0:
        return [1.0] * len(points)
    common = sum(spread) / sum(free)
    if common == 0:
        return [1.0] * len(points)
    return [
        (own + _PRIOR * common) / (n + _PRIOR) / len(point.values)
        for own, n, point in zip(spread, free, points, strict=True)
    ]
