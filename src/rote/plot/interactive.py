"""Figures for a browser: every panel as the traces and the layout that plotly.js draws.

The same data that matplotlib draws becomes plain dictionaries here, with no need of the plotly package; figure.js
makes their legends. Colours are names of CSS variables (`--series-1`, `--lower`; `colours.css` has them), which the
page replaces by their values, so that one description serves light and dark. Texts are escaped, since plotly.js reads a
subset of HTML in them.

    points       dots with intervals             published    hollow diamonds with intervals
    excluded     hollow dots with intervals      line         a line with a band
    fit          a thick line with a band        bound_lower  dashes
    bound_upper  dots                            reference    a thin grey line
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import resources, util
from pathlib import Path
from typing import Any

from rote.errors import MissingExtra
from rote.plot.colours import N_COLOURS, slots
from rote.plot.figure import Axis, Figure, Heat, Panel, Series

__all__ = ["Plot", "Trace", "plot", "plotly_js", "plots", "script"]

_FAR = 2.5
"""On a linear axis, a bound that rises so many times above everything measured would flatten it."""
_LOG_FAR = 1e4
"""The same on a logarithmic axis."""
_MOST_POWERS = 8
"""Ticks on a logarithmic axis."""
_LINE = 58
"""Characters of a line of words beside the pointer."""
_FEW = 10
"""Whole numbers over so short a stretch each have a tick."""
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "cross", "star", "triangle-down", "pentagon")
_DASHES = {
    "bound_lower": ("dash", "longdash", "8px,3px,2px,3px"),
    "bound_upper": ("dot", "dashdot", "longdashdot"),
    "reference": ("solid", "dash", "dot"),
}
_FIXED = {"bound_lower": "--lower", "bound_upper": "--upper", "reference": "--reference"}
_MEASURED = ("points", "excluded", "line", "fit", "published")
_HOLLOW = {"published": "diamond-open", "excluded": "circle-open"}


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

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def script() -> str:
    """figure.js: colours and legends of plots, for pages that draw them."""
    return resources.files("rote.plot").joinpath("figure.js").read_text(encoding="utf-8")


def plotly_js(extra: str, what: str) -> bytes:
    """plotly.js as the plotly package has it, found without importing that; `extra` of rote brings it for `what`."""
    spec = util.find_spec("plotly")
    if spec is None or spec.origin is None:
        raise MissingExtra("plotly", extra, what)
    return (Path(spec.origin).parent / "package_data" / "plotly.min.js").read_bytes()


def plots(figure: Figure) -> list[Plot]:
    """One plot for every panel."""
    return [plot(panel) for panel in figure.panels]


def plot(panel: Panel) -> Plot:
    """What plotly.js draws for a panel. Bounds far beyond the measured points start switched off."""
    data: list[dict[str, Any]] = []
    legend: list[Trace] = []
    counts: dict[str, int] = {}
    for series, slot in zip(panel.series, slots(panel.series), strict=True):
        turn = counts.get(series.kind, 0)
        counts[series.kind] = turn + 1
        colour = _FIXED.get(series.kind, "--ink" if slot is None else f"--series-{slot % N_COLOURS + 1}")
        shown = not _far(series, panel)
        traces = _traces(series, colour, slot or 0, turn, shown)
        line = traces[-1].get("line", {})
        mark = traces[-1].get("marker", {})
        legend.append(
            Trace(
                series.name,
                series.kind,
                colour,
                str(line.get("dash", "")),
                str(mark.get("symbol", "")),
                shown,
                tuple(range(len(data), len(data) + len(traces))),
            )
        )
        data.extend(traces)
    x_axis = _axis(panel.x, [x for one in panel.series if one.kind != "fit" for x in one.x])
    y_axis = _axis(panel.y, [y for one in panel.series for y in one.y])
    if panel.heat is not None:
        data.append(_heat(panel.heat))
        x_axis["type"] = y_axis["type"] = "category"
    elif panel.y.scale != "log":
        y_axis["rangemode"] = "tozero"
    layout: dict[str, Any] = {
        "xaxis": x_axis,
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


def _heat(heat: Heat) -> dict[str, Any]:
    columns, rows = ([html.escape(name) for name in names] for names in (heat.columns, heat.rows))
    label = html.escape(heat.label)
    return {
        "type": "heatmap",
        "z": [list(row) for row in heat.values],
        # Names, also where they look like numbers.
        "x": columns,
        "y": rows,
        "zmin": heat.low,
        "zmax": heat.high,
        "colorscale": "Viridis",
        "colorbar": {"title": {"text": label, "side": "right"}, "thickness": 12, "outlinewidth": 0},
        "hovertemplate": "%{x}, %{y}: %{z:.4g}<extra></extra>",
    }


def _far(series: Series, panel: Panel) -> bool:
    if series.kind not in ("bound_upper", "reference", "bound_lower"):
        return False
    measured = [y for one in panel.series if one.kind in _MEASURED for y in one.y]
    if not measured or not series.y or max(measured) <= 0:
        return False
    return max(series.y) > (_FAR if panel.y.scale == "linear" else _LOG_FAR) * max(measured)


def _wrapped(text: str) -> str:
    """Escaped, in lines that a small box has room for."""
    lines = [text] if len(text) <= _LINE else textwrap.wrap(text, _LINE)
    return "<br>".join(map(html.escape, lines))


def _traces(series: Series, colour: str, slot: int, turn: int, shown: bool) -> list[dict[str, Any]]:
    x, y, low, high = series.x, series.y, series.low, series.high
    name = html.escape(series.name)
    told = _wrapped(series.name)
    words = "<br>%{text}" if series.texts else ""
    common: dict[str, Any] = {
        "type": "scatter",
        "x": list(x),
        "y": list(y),
        "name": name,
        "visible": shown,
        "hovertemplate": f"{told.replace('%', '&#37;')}<br>%{{x}}, %{{y:.4g}}{words}<extra></extra>",
    }
    if series.texts:
        common["text"] = [_wrapped(text) for text in series.texts]
    if series.kind in ("points", "excluded", "published"):
        hollow = series.kind in _HOLLOW
        symbol = _HOLLOW.get(series.kind, _SYMBOLS[slot % len(_SYMBOLS)])
        size = 10 if series.kind == "published" else 8
        marker = {"color": colour, "symbol": symbol, "size": size, "line": {"width": 2 * hollow}}
        trace = {**common, "mode": "markers", "marker": marker}
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
    traces: list[dict[str, Any]] = []
    if low is not None and high is not None:
        traces.append(
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
    traces.append(trace)
    return traces


def _axis(axis: Axis, values: Sequence[float]) -> dict[str, Any]:
    drawn: dict[str, Any] = {
        "title": {"text": html.escape(axis.label), "standoff": 10},
        # plotly.js has no scale that is logarithmic and knows zero.
        "type": "linear" if axis.scale == "symlog" else axis.scale,
        "gridcolor": "--grid",
        "linecolor": "--rule",
        "zerolinecolor": "--grid",
        "ticks": "outside",
        "tickcolor": "--rule",
        "automargin": True,
        "showline": True,
    }
    if axis.names:
        drawn |= {"tickvals": list(range(len(axis.names))), "ticktext": [html.escape(name) for name in axis.names]}
    whole = bool(values) and all(value == int(value) for value in values)
    if axis.scale == "linear" and whole and 0 < max(values) - min(values) <= _FEW:
        drawn["dtick"] = 1  # no half heads
    if axis.scale == "log":
        drawn["exponentformat"] = "power"
        positive = [value for value in values if value > 0]
        ratio = max(positive) / min(positive) if positive else 1.0
        if ratio >= 100:
            drawn["dtick"] = math.ceil(math.log10(ratio) / _MOST_POWERS)  # powers of ten are enough
        elif ratio >= 8:
            drawn["dtick"] = "D2"  # and 2 and 5 times them
    return drawn
