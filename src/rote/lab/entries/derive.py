"""Columns and rows that follow from measured ones: [[derive]] tables, carried out in their order.

slope    a straight line of y against x through the unsaturated points of every series that `by` tells apart, for every
         seed; its slope becomes the column `to` of new rows
column   a text by conditions: values = [{ where = [...], value = "..." }, ...]; the first that is met counts
ratio    to = over / under, of two columns
size     heads' worth of weights: n_heads + d_mlp / (2 d_model), since a head and 2 d neurons have 4 d^2 weights each
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rote.errors import UnknownName, UsageError, check_names
from rote.measurement.where import select

__all__ = ["KINDS", "check_derive", "derive"]

Records = list[dict[str, Any]]
_KEYS = {
    "slope": ("x", "y", "where", "by", "to"),
    "column": ("to", "values"),
    "size": ("to",),
    "ratio": ("over", "under", "to"),
}
_SHARES = ("published_metric", "share_of_facts")
_FULL = 0.95


def check_derive(spec: Mapping[str, Any]) -> None:
    """Refuse unknown kinds and keys."""
    kind = str(spec.get("kind", ""))
    if kind not in KINDS:
        raise UnknownName("kind in [[derive]]", kind, KINDS)
    check_names(f"key of [[derive]] of kind {kind}", spec, ("kind", *_KEYS[kind]))
    if not isinstance(spec.get("to"), str):
        raise UsageError(f"[[derive]] of kind {kind} needs to, the name of the new column.")


def derive(records: Records, keys: list[list[str]], spec: Mapping[str, Any]) -> None:
    """Add to `records` (and to `keys`, the columns that identify each record) what the table asks for."""
    KINDS[str(spec["kind"])](records, keys, spec)


def _slope(records: Records, keys: list[list[str]], spec: Mapping[str, Any]) -> None:
    x, y, by, to = str(spec["x"]), str(spec["y"]), list(spec["by"]), str(spec["to"])
    series: dict[tuple[Any, ...], Records] = {}
    for row in select(records, list(spec.get("where", []))):
        if row.get(x) is not None and row.get(y) is not None:
            series.setdefault(tuple(row.get(name) for name in by), []).append(row)
    for mark, members in series.items():
        kept = _unsaturated(members, x, y)
        for seed in sorted({row["seed"] for row in kept}):
            mine = [row for row in kept if row["seed"] == seed]
            if len({row[x] for row in mine}) < 2:
                continue
            slope = float(np.polyfit([float(row[x]) for row in mine], [float(row[y]) for row in mine], 1)[0])
            same = {name: value for name, value in mine[0].items() if all(row.get(name) == value for row in mine)}
            shape: dict[str, Any] = {
                name: same[name] for name in ("vocab", "context", "n_facts", "d_head") if name in same
            }
            records.append({**shape, **dict(zip(by, mark, strict=True)), "seed": seed, to: slope})
            keys.append([*shape, *by])


def _unsaturated(members: Sequence[dict[str, Any]], x: str, y: str) -> Records:
    if y not in _SHARES:
        return list(members)
    places: dict[Any, list[float]] = {}
    for row in members:
        places.setdefault(row[x], []).append(float(row[y]))
    full = {place for place, values in places.items() if sum(values) / len(values) >= _FULL}
    return [row for row in members if row[x] not in full]


def _column(records: Records, keys: list[list[str]], spec: Mapping[str, Any]) -> None:
    to = str(spec["to"])
    for case in spec.get("values", []):
        # Of all records at once: not every one has every column.
        placed = [{**row, "_at": index} for index, row in enumerate(records)]
        met = {row["_at"] for row in select(placed, list(case.get("where", [])))}
        for index, row in enumerate(records):
            if row.get(to) is None and index in met:
                row[to] = case["value"]
                keys[index].append(to)


def _size(records: Records, keys: list[list[str]], spec: Mapping[str, Any]) -> None:
    to = str(spec["to"])
    for index, row in enumerate(records):
        if row.get("n_heads") and row.get("d_model"):
            row[to] = row["n_heads"] + (row.get("d_mlp") or 0) / (2 * row["d_model"])
            keys[index].append(to)


def _ratio(records: Records, keys: list[list[str]], spec: Mapping[str, Any]) -> None:
    over, under, to = str(spec["over"]), str(spec["under"]), str(spec["to"])
    for index, row in enumerate(records):
        if row.get(over) is not None and row.get(under):
            row[to] = row[over] / row[under]
            if over in keys[index] and under in keys[index]:
                keys[index].append(to)


KINDS: dict[str, Callable[[Records, list[list[str]], Mapping[str, Any]], None]] = {
    "slope": _slope,
    "column": _column,
    "size": _size,
    "ratio": _ratio,
}
