"""A figure in the page: its panels for plotly.js, a legend of buttons, the drawn picture, words and numbers."""

from __future__ import annotations

from rote.lab.report.html import data_address, escape, grid
from rote.lab.report.section import Picture
from rote.plot.interactive import Plot, Trace, plots

__all__ = ["Specs", "chart"]

Specs = dict[str, list[dict[str, object]]]
"""What plotly.js draws, by the figure's place in the page."""

_TYPES = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf"}
_MOST_POINTS = 60
_KINDS = {
    "points": "measured",
    "published": "published",
    "line": "line",
    "fit": "fit",
    "bound_lower": "lower bound",
    "bound_upper": "upper bound",
    "reference": "reference",
}


def chart(picture: Picture, place: str, owner: str, specs: Specs) -> str:
    """The figure as HTML; its data go into `specs`."""
    figure = picture.figure
    panels = plots(figure)
    specs[place] = [{"data": list(one.data), "layout": one.layout} for one in panels]
    stem = f"{owner}-{picture.name}".replace("/", "-")
    links = []
    for ending in ("png", "svg", "pdf"):
        if ending in picture.drawn:
            # The picture that the page shows is there once; its link takes the address from it.
            known = (
                'data-of="' + escape(place) + '-static"'
                if ending == "svg"
                else (f'href="{data_address(_TYPES[ending], picture.drawn[ending])}"')
            )
            links.append(f'<a class="file" download="{escape(stem)}.{ending}" {known}>{ending.upper()}</a>')
    shown = ""
    if "svg" in picture.drawn:
        source = data_address(_TYPES["svg"], picture.drawn["svg"])
        shown = f'<img class="static" id="{escape(place)}-static" alt="{escape(figure.alt)}" src="{source}">'
    elif "png" in picture.drawn:
        source = data_address(_TYPES["png"], picture.drawn["png"])
        shown = f'<img class="static" id="{escape(place)}-static" alt="{escape(figure.alt)}" src="{source}">'
    parts = [f'<figure id="{escape(place)}" class="chart">']
    if figure.title:
        parts.append(f"<h4>{escape(figure.title)}</h4>")
    parts.append(f'<div class="panels panels-{min(len(panels), 4)}" hidden>')
    for number, one in enumerate(panels):
        parts.append(_panel(one, place, number, figure.alt))
    parts.append("</div>")
    parts.append(shown)
    parts.append(f"<figcaption>{escape(figure.caption)}</figcaption>")
    if links:
        parts.append(f'<p class="files">Print quality: {" ".join(links)}</p>')
    parts.append(
        f"<details><summary>What the figure shows, in words and numbers</summary><p>{escape(figure.alt)}</p>"
        f"{_numbers(picture)}</details>"
    )
    parts.append("</figure>")
    return "\n".join(parts)


def _panel(one: Plot, place: str, number: int, alt: str) -> str:
    title = f"<h5>{escape(one.title)}</h5>" if one.title else ""
    label = f"{one.title}: {alt}" if one.title else alt
    buttons = "".join(_key(trace) for trace in one.legend)
    return (
        f'<div class="panel">{title}'
        f'<div class="plot" role="img" aria-label="{escape(label)}" data-figure="{escape(place)}" '
        f'data-panel="{number}"></div>'
        f'<div class="legend" role="group" aria-label="Series, press to show or hide">{buttons}</div></div>'
    )


def _key(trace: Trace) -> str:
    """One entry of the legend: a button, so that it works with a keyboard too."""
    colour = f"var({trace.colour})"
    shape = _SHAPES.get(trace.symbol, _SHAPES["circle"])
    if trace.kind in ("points", "published"):
        hollow = trace.kind == "published"
        fill = "none" if hollow else colour
        mark = f'<path d="{shape}" fill="{fill}" stroke="{colour}" stroke-width="2"/>'
    else:
        dash = {"dash": "5 3", "longdash": "9 3", "dot": "2 3", "dashdot": "6 3 2 3", "longdashdot": "9 3 2 3"}.get(
            trace.dash, trace.dash.replace("px", "").replace(",", " ") if "px" in trace.dash else ""
        )
        mark = f'<path d="M0 7H24" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dash}"/>'
        if trace.symbol:
            mark += f'<path d="{shape}" fill="{colour}"/>'
    off = "" if trace.shown else ' <span class="dim">(beyond the picture)</span>'
    members = ",".join(str(index) for index in trace.members)
    return (
        f'<button type="button" aria-pressed="{"true" if trace.shown else "false"}" data-members="{members}">'
        f'<svg width="24" height="14" aria-hidden="true">{mark}</svg><span>{escape(trace.name)}{off}</span></button>'
    )


_SHAPES = {
    "circle": "M8 7a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
    "square": "M8 3H16V11H8Z",
    "triangle-up": "M12 2L17 11H7Z",
    "triangle-down": "M12 12L17 3H7Z",
    "diamond": "M12 2L17 7L12 12L7 7Z",
    "diamond-open": "M12 2L17 7L12 12L7 7Z",
    "cross": "M10 2h4v3h3v4h-3v3h-4v-3h-3v-4h3Z",
    "star": "M12 1L13.8 5H18L14.6 8L16 12L12 9.6L8 12L9.4 8L6 5H10.2Z",
    "pentagon": "M12 2L17 6L15 12H9L7 6Z",
}


def _numbers(picture: Picture) -> str:
    """The measured and the published points of a figure as a table; lines are too dense to read."""
    rows: list[tuple[object, ...]] = []
    left = 0
    for panel in picture.figure.panels:
        for series in panel.series:
            kind = _KINDS.get(series.kind, series.kind)
            count = len(series.x)
            if count > _MOST_POINTS:
                left += 1
                continue
            for i in range(count):
                low = None if series.low is None else series.low[i]
                high = None if series.high is None else series.high[i]
                rows.append((panel.title, series.name, kind, series.x[i], series.y[i], low, high))
    first = picture.figure.panels[0] if picture.figure.panels else None
    columns: tuple[str, ...] = (
        "panel", "series", "kind",
        first.x.label if first else "x", first.y.label if first else "y", "low", "high",
    )  # fmt: skip
    note = f"{left} lines of more than {_MOST_POINTS} points are left out." if left else ""
    if all(not row[0] for row in rows):
        columns, rows = columns[1:], [row[1:] for row in rows]
    return grid(columns, rows, f"Numbers of {picture.name}", note)
