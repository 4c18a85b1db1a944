"""Figures for a browser: every panel as the traces and the layout that plotly.js draws.

The same data that matplotlib draws becomes plain dictionaries here, with no need of the plotly package. Colours are
names of CSS variables (`--series-1`, `--lower`), which the page replaces by their values, so that one description
serves light and dark. Texts are escaped, since plotly.js reads a subset of HTML in them.

    points       dots with intervals             published    hollow diamonds with intervals
    line         a line with a band              fit          a thick line with a band
    bound_lower  dashes                          bound_upper  dots              reference  a thin grey line
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rote.plot.model import Axis, Figure, Panel, Series

__all__ = ["Plot", "Trace", "plot", "plots"]

_SLOTS = 8
"""Colours of series; further series begin again."""
_FAR = 2.5
"""On a linear axis, a bound that rises so many times above everything measured would flatten it."""
_LOG_FAR = 1e4
"""The same on a logarithmic axis."""
_FEW = 10
"""Whole numbers over so short a stretch each have a tick."""
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "cross", "star", "triangle-down", "pentagon")
_DASHES = {
    "bound_lower": ("dash", "longdash", "8px,3px,2px,3px"),
    "bound_upper": ("dot", "dashdot", "longdashdot"),
    "reference": ("solid", "dash", "dot"),
}
_FIXED = {"bound_lower": "--lower", "bound_upper": "--upper", "reference": "--reference"}
_MEASURED = ("points", "line", "fit", "published")


@dataclass(frozen=True)
class Trace:
    """One series for the legend: its name, what it is, its colour and mark, and whether it is shown at first."""

    name: str
    kind: str
    colour: str
    dash: str
    symbol: str
    shown: bool
    members: tuple[int, ...]
    """Its traces in the plot: a band and a line belong together."""


@dataclass(frozen=True)
class Plot:
    """One panel: traces and layout for plotly.js, and what the legend lists."""

    title: str
    data: tuple[dict[str, Any], ...]
    layout: dict[str, Any]
    legend: tuple[Trace, ...]


def plots(figure: Figure) -> list[Plot]:
    """One plot for every panel."""
    return [plot(panel) for panel in figure.panels]


def plot(panel: Panel) -> Plot:
    """What plotly.js draws for a panel. Bounds far beyond the measured points start switched off."""
    data: list[dict[str, Any]] = []
    legend: list[Trace] = []
    slots = _slots(panel.series)
    counts: dict[str, int] = {}
    for series, slot in zip(panel.series, slots, strict=True):
        turn = counts.get(series.kind, 0)
        counts[series.kind] = turn + 1
        colour = _FIXED.get(series.kind, "--ink" if slot is None else f"--series-{slot % _SLOTS + 1}")
        shown = not _far(series, panel)
        made = _traces(series, colour, slot or 0, turn, shown)
        line = made[-1].get("line", {})
        mark = made[-1].get("marker", {})
        legend.append(
            Trace(
                series.name,
                series.kind,
                colour,
                str(line.get("dash", "")),
                str(mark.get("symbol", "")),
                shown,
                tuple(range(len(data), len(data) + len(made))),
            )
        )
        data.extend(made)
    y_axis = _axis(panel.y, [y for one in panel.series for y in one.y])
    if panel.y.scale == "linear":
        y_axis["rangemode"] = "tozero"
    layout: dict[str, Any] = {
        "xaxis": _axis(panel.x, [x for one in panel.series for x in one.x]),
        "yaxis": y_axis,
        "showlegend": False,
        "hovermode": "closest",
        "margin": {"l": 60, "r": 12, "t": 12, "b": 52},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "--ink", "size": 13, "family": "system-ui, sans-serif"},
        "hoverlabel": {"bgcolor": "--paper", "bordercolor": "--rule", "font": {"color": "--ink"}},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "--muted", "activecolor": "--ink"},
    }
    return Plot(panel.title, tuple(data), layout, tuple(legend))


def _slots(series: Sequence[Series]) -> list[int | None]:
    """A colour for every series: fits and published points have that of the points they belong to; None: ink."""
    taken: dict[str, int] = {}
    for one in series:
        if one.kind in ("points", "line"):
            taken.setdefault(one.name, len(taken))
    found: list[int | None] = []
    for one in series:
        owners = [one.name] if one.name in taken else [name for name in taken if _belongs(one.name, name)]
        found.append(taken[max(owners, key=len)] if owners else None)
    return found


def _belongs(name: str, owner: str) -> bool:
    return name.startswith(f"{owner}: ") or name.endswith(f": {owner}")


def _far(series: Series, panel: Panel) -> bool:
    if series.kind not in ("bound_upper", "reference", "bound_lower"):
        return False
    measured = [y for one in panel.series if one.kind in _MEASURED for y in one.y]
    if not measured or not series.y or max(measured) <= 0:
        return False
    return max(series.y) > (_FAR if panel.y.scale == "linear" else _LOG_FAR) * max(measured)


def _traces(series: Series, colour: str, slot: int, turn: int, shown: bool) -> list[dict[str, Any]]:
    x, y, low, high = series.x, series.y, series.low, series.high
    name = html.escape(series.name)
    common: dict[str, Any] = {"type": "scatter", "x": list(x), "y": list(y), "name": name, "visible": shown}
    if series.kind in ("points", "published"):
        hollow = series.kind == "published"
        symbol = "diamond-open" if hollow else _SYMBOLS[slot % len(_SYMBOLS)]
        trace = {
            **common,
            "mode": "markers",
            "marker": {"color": colour, "symbol": symbol, "size": 10 if hollow else 8, "line": {"width": 2 * hollow}},
        }
        if low is not None and high is not None:
            trace["error_y"] = {
                "type": "data",
                "symmetric": False,
                "array": [max(0.0, end - at) for at, end in zip(y, high, strict=True)],
                "arrayminus": [max(0.0, at - end) for at, end in zip(y, low, strict=True)],
                "color": colour,
                "thickness": 1.5,
                "width": 4,
            }
        return [trace]
    made: list[dict[str, Any]] = []
    if low is not None and high is not None:
        made.append(
            {
                **common,
                "x": [*x, *reversed(x)],
                "y": [*low, *reversed(high)],
                "mode": "lines",
                "line": {"width": 0},
                "fill": "toself",
                "fillcolor": f"{colour}-soft",
                "hoverinfo": "skip",
            }
        )
    dashes = _DASHES.get(series.kind, ("solid",))
    width = {"fit": 2.5, "line": 2.0}.get(series.kind, 1.6)
    line = {"color": colour, "width": width, "dash": dashes[turn % len(dashes)]}
    trace = {**common, "mode": "lines", "line": line}
    if series.kind == "line" and len(x) <= 40:
        # Few places are measured ones, and are shown as such.
        trace["mode"] = "lines+markers"
        trace["marker"] = {"color": colour, "size": 6, "symbol": _SYMBOLS[slot % len(_SYMBOLS)]}
    made.append(trace)
    return made


def _axis(axis: Axis, values: Sequence[float]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "title": {"text": html.escape(axis.label), "standoff": 10},
        "type": axis.scale,
        "gridcolor": "--grid",
        "linecolor": "--rule",
        "zerolinecolor": "--grid",
        "ticks": "outside",
        "tickcolor": "--rule",
        "automargin": True,
        "showline": True,
    }
    whole = bool(values) and all(value == int(value) for value in values)
    if axis.scale == "linear" and whole and 0 < max(values) - min(values) <= _FEW:
        made["dtick"] = 1  # no half heads
    if axis.scale == "log":
        made["exponentformat"] = "power"
        positive = [value for value in values if value > 0]
        ratio = max(positive) / min(positive) if positive else 1.0
        if ratio >= 100:
            made["dtick"] = 1  # powers of ten are enough
        elif ratio >= 8:
            made["dtick"] = "D2"  # and 2 and 5 times them
    return made
