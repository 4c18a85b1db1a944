"""Figures of any sweep: what was measured against every axis that varies, with fits and bounds.

Rows that differ in shape are on panels of their own, since their bounds differ; rows that differ in how they were
measured (recipe, construction, steps) share one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rote.analyse.fit import Fit, Point, fit, gather, predict
from rote.analyse.fit.figure import bound_series, curve_series, point_series
from rote.errors import RoteError
from rote.plot import Axis, Figure, Panel, Series, describe

__all__ = ["AXES", "Drawing", "Fitted", "drawings"]

AXES = ("n_heads", "d_model", "d_head", "context", "vocab", "n_layers", "d_mlp", "n_facts", "sharing", "steps", "rate")
_SHAPE = (
    "n_heads", "d_model", "d_head", "context", "vocab", "n_layers", "d_mlp", "gated", "n_facts", "sharing", "family",
)  # fmt: skip
_MANNER = ("by", "recipe", "recall", "steps", "rate", "dtype", "tolerance")
_LABELS = {"capacity": "facts held (capacity)", "share": "share of facts recalled"}
_MOST_PANELS = 9
_MOST_SERIES = 6
_LEVEL = 0.95


@dataclass(frozen=True)
class Fitted:
    """The law of one series, or why there is none."""

    panel: str
    series: str
    fit: Fit | None
    reason: str


@dataclass(frozen=True)
class Drawing:
    """One figure and the fits in it."""

    x: str
    y: str
    figure: Figure
    fits: tuple[Fitted, ...]


def drawings(rows: Sequence[Mapping[str, Any]], title: str) -> list[Drawing]:
    """A figure for each thing measured and each axis that varies; rows are of cells, with what was asked for."""
    charts = []
    for y, task in (("capacity", "capacity"), ("share", "recall")):
        done = [row for row in rows if row.get("status") == "done" and row.get("task") == task and y in row]
        for x in AXES:
            if len({row.get(x) for row in done if row.get(x) is not None}) > 1:
                drawing = _drawing(done, x, y, title)
                if drawing is not None:
                    charts.append(drawing)
    return charts


def _value(row: Mapping[str, Any], name: str) -> Any:
    """As asked: the number of facts of a result is no axis where it was left open."""
    return row.get("asked_facts") if name == "n_facts" else row.get(name)


def _split(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[Mapping[str, Any]]]:
    """Rows by the values of what varies among `names`, in words and in order of size.

    A name that tells no more rows apart than those before it do is left out of the words.
    """
    telling: list[str] = []
    groups = {()}
    for name in names:
        more = {tuple(_value(row, one) for one in (*telling, name)) for row in rows}
        if len(more) > len(groups):
            telling.append(name)
            groups = more
    members: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        members.setdefault(tuple(_value(row, name) for name in telling), []).append(row)
    return {
        ", ".join(_part(name, value) for name, value in zip(telling, key, strict=True)): members[key]
        for key in sorted(members, key=lambda key: [_rank(value) for value in key])
    }


def _rank(value: object) -> tuple[int, float, str]:
    """Nothing, numbers by size, then texts."""
    if value is None:
        return 0, 0.0, ""
    return (1, float(value), "") if isinstance(value, (int, float)) else (2, 0.0, str(value))


def _part(name: str, value: object) -> str:
    if name == "by":
        return "trained" if value == "train" else f"built by {value}"
    if value is None:
        return f"{name} not given"
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"


def _drawing(rows: Sequence[Mapping[str, Any]], x: str, y: str, title: str) -> Drawing | None:
    rows = [row for row in rows if row.get(x) is not None]
    panels: list[Panel] = []
    fits: list[Fitted] = []
    left = full = 0
    everything = [point for point in rows if isinstance(point.get(y), (int, float))]
    scale_x = _scale([float(row[x]) for row in everything], 30)
    scale_y = _scale([float(row[y]) for row in everything], 100)
    for name, members in _split(rows, [one for one in _SHAPE if one != x]).items():
        if len({row[x] for row in members}) < 2:
            continue
        if len(panels) == _MOST_PANELS:
            left += 1
            continue
        series: list[Series] = []
        bounds: list[Series] = []
        for label, own in list(_split(members, [one for one in _MANNER if one != x]).items())[:_MOST_SERIES]:
            if len({row[x] for row in own}) < 2:
                continue
            points, law, reason = _fitted(own, x, y)
            full += sum(point.saturated for point in points)
            shown = label or "measured"
            series += point_series(shown, points, _LEVEL)
            if law is not None:
                series.append(curve_series(shown, law))
            fits.append(Fitted(name, shown, law, reason))
            bounds = bounds or _bounds(points, law, y)
        if series:
            panels.append(Panel(name, Axis(x, scale_x), Axis(_LABELS[y], scale_y), (*series, *bounds)))
    if not panels:
        return None
    caption = (
        f"{_LABELS[y].capitalize()} against {x}: means over seeds with 95 % intervals, the fitted laws with their "
        "bands, and the bounds of all theorems that have a number here."
    )
    if full:
        caption += f" {full} saturated points are shown and not fitted."
    if left:
        caption += f" {left} further shapes are in the table only."
    figure = Figure(f"{title}: {y} against {x}", tuple(panels), caption, describe(panels))
    return Drawing(x, y, figure, tuple(fits))


def _scale(values: Sequence[float], ratio: float) -> str:
    return "log" if values and min(values) > 0 and max(values) >= ratio * min(values) else "linear"


def _fitted(rows: Sequence[Mapping[str, Any]], x: str, y: str) -> tuple[Sequence[Point], Fit | None, str]:
    """Points, their law, and why there is none."""
    try:
        law = fit(rows, x, y, level=_LEVEL)
    except RoteError as error:
        try:
            return gather(rows, x, y), None, str(error)
        except RoteError as other:
            return [], None, str(other)
    return law.points, law, ""


def _bounds(points: Sequence[Point], law: Fit | None, y: str) -> list[Series]:
    used = law.used if law is not None else list(points)
    if len(used) < 2:
        return []
    try:
        return bound_series(used, law.predictions if law is not None else predict(used, y))
    except RoteError:
        return []
