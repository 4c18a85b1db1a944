"""From rows to the data of a figure.

A [[figure.panel]] has

x, y                the columns
where               conditions on rows, such as ["d_model=10", "source!=published"]
series              columns whose values tell series apart; ["source"] if not given
names               words in the place of such values, as in { "train:best" = "strong recipe" }, and of theorems; series
                    are drawn in the order of this table
kind                "points" if not given, or "line", "reference", "bound_lower", "bound_upper" for rows that are curves
fit                 a law for every series that has points enough
bounds              names of theorems, drawn at the shapes of the rows
also                further columns of the same rows: a list of { y, name, kind }, kind "fit" if not given
reference           a list of { name, y }, drawn across
lines               a list of { name, y, kind, where }: another column of the rows against the same x, as one curve
title, x_label, y_label, x_scale, y_scale
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rote import theorems
from rote.analyse.fit.points import is_number
from rote.errors import UsageError, check_names
from rote.lab.entries.bounds import bound_value
from rote.lab.entries.claims.exponent import curves_of
from rote.lab.entries.table import Spot, Table, spots
from rote.plot import Axis, Figure, Panel, Series, describe

__all__ = ["check_figure", "make_figure"]

_FIGURE = ("name", "title", "caption", "panel")
_PANEL = (
    "title", "x", "y", "x_label", "y_label", "x_scale", "y_scale", "where", "series", "names", "kind", "fit", "bounds",
    "reference", "also", "lines",
)  # fmt: skip
_LINE = ("name", "y", "kind", "where")
_LABELS = {
    "n_heads": "heads H",
    "d_model": "width d",
    "d_head": "head width d_h",
    "context": "context n",
    "n_facts": "facts T",
    "published_metric": "accuracy as published",
    "share_of_facts": "share of facts recalled",
    "capacity": "capacity (facts)",
    "params": "parameters",
    "bits_per_param": "bits a parameter",
    "held": "facts recalled",
    "explained": "variance of the targets explained",
    "sharing": "share of common context rows",
}
_SHORT = {
    "n_heads": "H",
    "d_model": "d",
    "d_head": "d_h",
    "vocab": "N",
    "context": "n",
    "n_layers": "layers",
    "n_facts": "T",
}


def check_figure(table: Mapping[str, Any]) -> None:
    """Refuse unknown names before anything is run."""
    check_names("key in [[figure]]", table, _FIGURE)
    for panel in table.get("panel", []):
        check_names("key in [[figure.panel]]", panel, _PANEL)
        for name in ("x", "y"):
            if not isinstance(panel.get(name), str):
                raise UsageError(f"a panel needs {name}, the name of a column.")
        for name in panel.get("bounds", []):
            theorems.get(name)
        for line in panel.get("lines", []):
            check_names("key of a line in [[figure.panel]]", line, _LINE)


def make_figure(table: Table, spec: Mapping[str, Any], numbers: Mapping[str, Any]) -> Figure:
    """The figure's data; the caption is filled with the numbers of the tests."""
    from rote.lab.entries.sentences import fill

    drawn = tuple(_panel(table, panel) for panel in spec.get("panel", []))
    # A panel whose rows this run does not have is left out.
    panels = tuple(panel for panel in drawn if panel.series) or drawn
    title = str(spec.get("title", ""))
    return Figure(title, panels, fill(str(spec.get("caption", "")), numbers), describe(panels))


def _panel(table: Table, spec: Mapping[str, Any]) -> Panel:
    x, y = str(spec["x"]), str(spec["y"])
    where = list(spec.get("where", []))
    split = list(spec.get("series", ["source"]))
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in table.select(where):
        if is_number(row.get(x)) and is_number(row.get(y)):
            groups.setdefault(tuple(row.get(name) for name in split), []).append(row)
    said = {str(value): place for place, value in enumerate(spec.get("names", {}))}
    order = sorted(
        groups,
        key=lambda mark: [(said.get(str(value), len(said)), value is None, str(type(value)), value) for value in mark],
    )
    # Names leave out what is the same everywhere.
    varying = [name for i, name in enumerate(split) if len({mark[i] for mark in groups}) > 1] or split[:1]
    series: list[Series] = []
    for mark in order:
        rows = sorted(groups[mark], key=lambda row: float(row[x]))
        told = dict(zip(split, mark, strict=True))
        name = _name(told, varying, spec.get("names", {}))
        printed = told.get("source") == "published" or all(row["source"] == "published" for row in rows)
        kind = "published" if printed else str(spec.get("kind", "points"))
        series.append(_series(name, kind, rows, x, y))
        for other in spec.get("also", []):
            held = [row for row in rows if is_number(row.get(str(other["y"])))]
            kind = str(other.get("kind", "fit"))
            series.append(_series(f"{name}: {other['name']}", kind, held, x, str(other["y"])))
        if spec.get("fit") and not printed:
            chosen = [*where, *(f"{key}={value}" for key, value in told.items())]
            law = _law(spots(table, x, y, chosen), str(spec["fit"]), name)
            series += [law] if law is not None else []
    series += [_line(table, line, x, where) for line in spec.get("lines", [])]
    series += _bounds(groups, spec, x, y)
    spans = [value for item in series for value in item.x]
    for line in _references(spec):
        if spans:
            series.append(Series(line[0], "reference", (min(spans), max(spans)), (line[1], line[1])))
    return Panel(
        str(spec.get("title", "")),
        Axis(str(spec.get("x_label", _LABELS.get(x, x))), str(spec.get("x_scale", "linear"))),
        Axis(str(spec.get("y_label", _LABELS.get(y, y))), str(spec.get("y_scale", "linear"))),
        tuple(_positive(item, spec) for item in series if item.x),
    )


def _name(told: Mapping[str, Any], varying: Sequence[str], names: Mapping[str, Any]) -> str:
    parts = []
    for key in sorted(varying, key=lambda name: name == "source"):
        value = told[key]
        if str(value) in names:
            parts.append(str(names[str(value)]))
        elif isinstance(value, str):
            parts.append(value)
        else:
            parts.append(
                f"{_SHORT.get(key, key)} = {value:g}" if is_number(value) else f"{_SHORT.get(key, key)} {value}"
            )
    return ", ".join(parts)


def _series(name: str, kind: str, rows: Sequence[Mapping[str, Any]], x: str, y: str) -> Series:
    low = tuple(float(row.get(f"{y}_low", row[y])) for row in rows)
    high = tuple(float(row.get(f"{y}_high", row[y])) for row in rows)
    spread = any(f"{y}_low" in row for row in rows)
    if y in ("published_metric", "share_of_facts"):
        # Student's t knows no ends; a share does.
        low, high = (tuple(min(1.0, max(0.0, value)) for value in part) for part in (low, high))
    return Series(
        name,
        kind,
        tuple(float(row[x]) for row in rows),
        tuple(float(row[y]) for row in rows),
        low if spread else None,
        high if spread else None,
    )


def _law(found: Sequence[Spot], law: str, name: str) -> Series | None:
    curve = curves_of(list(found), [law]).get(law)
    used = [spot.x for spot in found if not spot.saturated]
    if curve is None:
        return None
    place = np.linspace(min(used), max(used), 60)
    return Series(f"{name}: {law} fit", "fit", tuple(place.tolist()), tuple(curve.at(place).tolist()))


def _bounds(groups: Mapping[tuple[Any, ...], Sequence[Mapping[str, Any]]], spec: Mapping[str, Any], x: str, y: str) -> (
    list[Series]
):  # fmt: skip
    """One line for every theorem and every set of shapes that differ only in x; equal lines are drawn once."""
    series: list[Series] = []
    for theorem in spec.get("bounds", []):
        kind = "bound_upper" if theorems.get(theorem).kind == "upper" else "bound_lower"
        if theorems.get(theorem).kind == "empirical":
            kind = "reference"
        lines: dict[tuple[Any, ...], dict[float, float]] = {}
        for mark, rows in groups.items():
            told = dict(zip(spec.get("series", ["source"]), mark, strict=True))
            told.pop("source", None)
            for row in rows:
                value = bound_value(row, theorem, y)
                if value is not None:
                    lines.setdefault(tuple(told.items()), {})[float(row[x])] = value
        joined: list[tuple[tuple[Any, ...], dict[float, float]]] = []
        for told_items, line in lines.items():
            same = [other for _, other in joined if _agree(line, other)]
            if same:
                same[0].update(line)
            else:
                joined.append((told_items, dict(line)))
        for told_items, line in joined:
            name = _name(dict(told_items), [key for key, _ in told_items] if len(joined) > 1 else [], {})
            known = str(spec.get("names", {}).get(theorem, theorem))
            label = f"{known}, {name}" if name else known
            places = tuple(sorted(line))
            series.append(Series(label, kind, places, tuple(line[place] for place in places)))
    return series


def _agree(one: Mapping[float, float], other: Mapping[float, float]) -> bool:
    """Two lines that meet are one if they say the same wherever both say something."""
    common = set(one) & set(other)
    return bool(common) and all(one[place] == other[place] for place in common)


def _line(table: Table, line: Mapping[str, Any], x: str, where: Sequence[str]) -> Series:
    """A column as one curve; rows at the same x are averaged. `where` is the panel's own if the line has none."""
    y = str(line["y"])
    places: dict[float, list[float]] = {}
    for row in table.select(line.get("where", where)):
        if is_number(row.get(x)) and is_number(row.get(y)):
            places.setdefault(float(row[x]), []).append(float(row[y]))
    order = sorted(places)
    values = tuple(sum(places[place]) / len(places[place]) for place in order)
    return Series(str(line.get("name", y)), str(line.get("kind", "reference")), tuple(order), values)


def _references(spec: Mapping[str, Any]) -> list[tuple[str, float]]:
    held = spec.get("reference", [])
    return [(str(one["name"]), float(one["y"])) for one in ([held] if isinstance(held, dict) else held)]


def _positive(item: Series, spec: Mapping[str, Any]) -> Series:
    """On logarithmic axes only what is positive can be shown."""
    keep = [
        i
        for i in range(len(item.x))
        if (spec.get("x_scale") != "log" or item.x[i] > 0) and (spec.get("y_scale") != "log" or item.y[i] > 0)
    ]
    low, high = item.low, item.high
    if low is not None and spec.get("y_scale") == "log":
        low = tuple(max(value, item.y[i] * 1e-3) if item.y[i] > 0 else value for i, value in enumerate(low))
    return Series(
        item.name,
        item.kind,
        tuple(item.x[i] for i in keep),
        tuple(item.y[i] for i in keep),
        None if low is None else tuple(low[i] for i in keep),
        None if high is None else tuple(high[i] for i in keep),
    )
