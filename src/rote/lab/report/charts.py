"""A figure in the page: places for its panels, the drawn picture, words and numbers."""

from __future__ import annotations

from rote.lab.report.html import data_address, escape, grid
from rote.lab.report.section import Picture
from rote.plot.interactive import Plot, plots

__all__ = ["Specs", "chart"]

Specs = dict[str, list[dict[str, object]]]
"""What figure.js and plotly.js draw, by the figure's place in the page."""

_TYPES = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf"}
_MOST_POINTS = 60
_KINDS = {
    "points": "measured",
    "excluded": "not fitted",
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
    specs[place] = [one.to_dict() for one in panels]
    stem = f"{owner}-{picture.name}".replace("/", "-")
    files = {ending: data_address(_TYPES[ending], content) for ending, content in picture.drawn.items()}
    # The picture that the page shows is there once; its link takes the address from it.
    held = {ending: f'href="{address}"' for ending, address in files.items()} | {"svg": f'data-of="{place}-static"'}
    links = [
        f'<a class="file" download="{escape(stem)}.{ending}" {held[ending]}>{ending.upper()}</a>' for ending in files
    ]
    shown = f'<img class="static" id="{escape(place)}-static" alt="{escape(figure.alt)}" src="{files["svg"]}">'
    parts = [f'<figure id="{escape(place)}" class="chart">']
    if figure.title:
        parts.append(f"<h4>{escape(figure.title)}</h4>")
    parts.append(f'<div class="panels panels-{min(len(panels), 4)}" hidden>')
    for number, one in enumerate(panels):
        parts.append(_panel(one, place, number, figure.alt))
    parts.append("</div>")
    parts.append(shown)
    parts.append(f"<figcaption>{escape(figure.caption)}</figcaption>")
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
    return (
        f'<div class="panel">{title}'
        f'<div class="plot" role="img" aria-label="{escape(label)}" data-figure="{escape(place)}" '
        f'data-panel="{number}"></div></div>'
    )


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
