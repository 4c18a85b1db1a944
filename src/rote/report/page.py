"""The page: sections as one HTML document that needs nothing but itself.

Style, script and plotly.js stand in the page; plotly.js packed, since it is by far the largest part. Every text is
escaped on its way in. The drawn figures are in the page too, so that it shows them without a script, on paper, and for
download.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from rote._version import __version__
from rote.chart.interactive import Plot, Trace, plots
from rote.errors import MissingExtra
from rote.report.section import VERDICTS, Picture, Section, Table, said

__all__ = ["render"]

_MARKS = {"holds": "✓", "does not hold": "✗", "undecided": "?"}
_CLASSES = {"holds": "yes", "does not hold": "no", "undecided": "open"}
_TYPES = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf"}
_POLICY = (
    "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)
"""Browsers hold the page to its promise: nothing is fetched."""
_MOST_ROWS = 200
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


@dataclass
class _Ids:
    """Anchors, each once."""

    seen: Counter[str]

    def take(self, name: str) -> str:
        self.seen[name] += 1
        return name if self.seen[name] == 1 else f"{name}-{self.seen[name]}"


def render(sections: Sequence[Section], title: str) -> str:
    """The document as one text."""
    ids = _Ids(Counter())
    places = [ids.take(section.anchor) for section in sections]
    specs: dict[str, list[dict[str, object]]] = {}
    body = [
        _section(section, place, specs)
        for section, place in zip(sections, places, strict=True)
    ]
    style = _asset("page.css")
    script = _asset("page.js")
    library = _library() if specs else ""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f'<meta name="generator" content="rote {_e(__version__)}">',
            '<link rel="icon" href="data:,">',
            f"<title>{_e(title)}</title>",
            f"<style>\n{style}</style>",
            "</head>",
            "<body>",
            '<a class="skip" href="#main">Skip to the results</a>',
            '<header class="top">',
            f"<h1>{_e(title)}</h1>",
            '<button type="button" id="theme" hidden>Theme: automatic</button>',
            "</header>",
            _contents(sections, places),
            '<main id="main">',
            *_grouped(sections, body),
            "</main>",
            f"<footer><p>Made by <code>rote report</code>, rote {_e(__version__)}. "
            "This page needs no network; plotly.js, which it carries, is © Plotly, Inc. under the MIT licence.</p></footer>",
            f'<script type="application/json" id="figures">{_json(specs)}</script>',
            f'<script type="text/plain" id="library">{library}</script>',
            f"<script>\n{script}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _e(text: object) -> str:
    return html.escape(str(text), quote=True)


def _json(value: object) -> str:
    """JSON that can stand inside a script element: no `<` in it, so no end tag and no comment."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return resources.files("rote.report").joinpath(name).read_text(encoding="utf-8")


def _library() -> str:
    """plotly.js of the installed plotly package, packed and in base64."""
    try:
        source = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        raise MissingExtra("plotly", "report", "a report") from None
    return base64.b64encode(gzip.compress(source, 9, mtime=0)).decode("ascii")


def _grouped(sections: Sequence[Section], body: Sequence[str]) -> list[str]:
    made: list[str] = []
    last = None
    for section, text in zip(sections, body, strict=True):
        if section.group != last:
            made.append(f'<h2 class="group">{_e(section.group)}</h2>')
            last = section.group
        made.append(text)
    return made


def _contents(sections: Sequence[Section], places: Sequence[str]) -> str:
    """What there is, with verdicts, as a table that is also the way around the page."""
    claimed = [section for section in sections if section.verdict in VERDICTS]
    counts = Counter(section.verdict for section in claimed)
    parts = [f"{counts[verdict]} {_plural(verdict, counts[verdict])}" for verdict in VERDICTS if counts[verdict]]
    if claimed:
        lead = f"{len(claimed)} {'claim' if len(claimed) == 1 else 'claims'} put to the test: {', '.join(parts)}."
    else:
        lead = f"{len(sections)} {'sweep' if len(sections) == 1 else 'sweeps'}."
    rows = []
    for section, place in zip(sections, places, strict=True):
        verdict = f"<td>{_badge(section.verdict) if section.verdict else ''}</td>" if claimed else ""
        name = "" if section.name in section.title else f'<div class="dim">{_e(section.name)}</div>'
        rows.append(
            f'<tr><td><a href="#{_e(place)}">{_e(section.title)}</a>{name}</td>'
            f"{verdict}<td>{_e(section.sentence)}</td></tr>"
        )
    columns = ("What", "Verdict", "In a sentence") if claimed else ("What", "In a sentence")
    head = "".join(f'<th scope="col">{name}</th>' for name in columns)
    return (
        '<nav aria-label="Contents" class="contents">'
        f"<p>{_e(lead)}</p>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Contents and verdicts">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></nav>"
    )


def _plural(verdict: str, count: int) -> str:
    if count == 1 or verdict == "undecided":
        return verdict
    return {"holds": "hold", "does not hold": "do not hold"}[verdict]


def _badge(verdict: str) -> str:
    kind = _CLASSES.get(verdict, "open")
    return f'<span class="badge {kind}"><span aria-hidden="true">{_MARKS.get(verdict, "?")}</span> {_e(verdict)}</span>'


def _section(section: Section, place: str, specs: dict[str, list[dict[str, object]]]) -> str:
    made = [f'<section id="{_e(place)}" aria-labelledby="{_e(place)}-title">']
    name = "" if section.name in section.title else f' <span class="dim">{_e(section.name)}</span>'
    made.append(f'<h3 id="{_e(place)}-title">{_e(section.title)}{name}</h3>')
    if section.words:
        pairs = "".join(f"<dt>{_e(label)}</dt><dd>{_e(text)}</dd>" for label, text in section.words)
        made.append(f'<dl class="words">{pairs}</dl>')
    if section.verdict or section.sentence:
        badge = _badge(section.verdict) if section.verdict else ""
        made.append(f'<p class="verdict">{badge} {_e(section.sentence)}</p>')
    made.extend(f'<p class="answer">{_e(line)}</p>' for line in section.answer.splitlines() if line.strip())
    for number, picture in enumerate(section.pictures, 1):
        made.append(_figure(picture, f"{place}-figure-{number}", section.name, specs))
    if section.deviations:
        items = "".join(f"<li>{_e(text)}</li>" for text in section.deviations)
        made.append(f"<h4>Deviations</h4><ul>{items}</ul>")
    made.extend(_table(table, section.name) for table in section.tables)
    for listing in section.listings:
        link = _download(listing.text, listing.file, "text/plain") if listing.file else ""
        made.append(
            f"<details><summary>{_e(listing.title)}</summary>"
            f'<pre tabindex="0"><code>{_e(listing.text)}</code></pre>{link}</details>'
        )
    if section.commands:
        made.append(f'<h4>Run it again</h4><pre class="command" tabindex="0"><code>{_e(chr(10).join(section.commands))}</code></pre>')
    if section.facts:
        parts = ", ".join(f"{_e(name)} {_e(value)}" for name, value in section.facts.items())
        made.append(f'<p class="dim">{parts}.</p>')
    made.append("</section>")
    return "\n".join(made)


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _download(text: str, file: str, kind: str) -> str:
    return f'<p><a class="file" download="{_e(file)}" href="{_data(kind + ";charset=utf-8", text.encode())}">{_e(file)}</a></p>'


def _figure(picture: Picture, place: str, owner: str, specs: dict[str, list[dict[str, object]]]) -> str:
    figure = picture.figure
    panels = plots(figure)
    specs[place] = [{"data": list(one.data), "layout": one.layout} for one in panels]
    stem = f"{owner}-{picture.name}".replace("/", "-")
    links = []
    for ending in ("png", "svg", "pdf"):
        if ending in picture.drawn:
            # The picture that the page shows is there once; its link takes the address from it.
            known = 'data-of="' + _e(place) + '-static"' if ending == "svg" else (
                f'href="{_data(_TYPES[ending], picture.drawn[ending])}"'
            )
            links.append(f'<a class="file" download="{_e(stem)}.{ending}" {known}>{ending.upper()}</a>')
    shown = ""
    if "svg" in picture.drawn:
        source = _data(_TYPES["svg"], picture.drawn["svg"])
        shown = f'<img class="static" id="{_e(place)}-static" alt="{_e(figure.alt)}" src="{source}">'
    elif "png" in picture.drawn:
        source = _data(_TYPES["png"], picture.drawn["png"])
        shown = f'<img class="static" id="{_e(place)}-static" alt="{_e(figure.alt)}" src="{source}">'
    parts = [f'<figure id="{_e(place)}" class="chart">']
    if figure.title:
        parts.append(f"<h4>{_e(figure.title)}</h4>")
    parts.append(f'<div class="panels panels-{min(len(panels), 3)}" hidden>')
    for number, one in enumerate(panels):
        parts.append(_panel(one, place, number, figure.alt))
    parts.append("</div>")
    parts.append(shown)
    parts.append(f"<figcaption>{_e(figure.caption)}</figcaption>")
    if links:
        parts.append(f'<p class="files">Print quality: {" ".join(links)}</p>')
    parts.append(
        f"<details><summary>What the figure shows, in words and numbers</summary><p>{_e(figure.alt)}</p>"
        f"{_numbers(picture)}</details>"
    )
    parts.append("</figure>")
    return "\n".join(parts)


def _panel(one: Plot, place: str, number: int, alt: str) -> str:
    title = f"<h5>{_e(one.title)}</h5>" if one.title else ""
    label = f"{one.title}: {alt}" if one.title else alt
    buttons = "".join(_key(trace) for trace in one.legend)
    return (
        f'<div class="panel">{title}'
        f'<div class="plot" role="img" aria-label="{_e(label)}" data-figure="{_e(place)}" data-panel="{number}"></div>'
        f'<div class="legend" role="group" aria-label="Series, press to show or hide">{buttons}</div></div>'
    )


def _key(trace: Trace) -> str:
    """One entry of the legend: a button, so that it works with a keyboard too."""
    colour = f"var({trace.colour})"
    if trace.kind in ("points", "published"):
        hollow = trace.kind == "published"
        fill = "none" if hollow else colour
        mark = f'<path d="{_SHAPES.get(trace.symbol, _SHAPES["circle"])}" fill="{fill}" stroke="{colour}" stroke-width="2"/>'
    else:
        dash = {"dash": "5 3", "longdash": "9 3", "dot": "2 3", "dashdot": "6 3 2 3", "longdashdot": "9 3 2 3"}.get(
            trace.dash, trace.dash.replace("px", "").replace(",", " ") if "px" in trace.dash else ""
        )
        mark = f'<path d="M0 7H24" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dash}"/>'
        if trace.symbol:
            mark += f'<path d="{_SHAPES.get(trace.symbol, _SHAPES["circle"])}" fill="{colour}"/>'
    off = "" if trace.shown else ' <span class="dim">(beyond the picture)</span>'
    members = ",".join(str(index) for index in trace.members)
    return (
        f'<button type="button" aria-pressed="{"true" if trace.shown else "false"}" data-members="{members}">'
        f'<svg width="24" height="14" aria-hidden="true">{mark}</svg><span>{_e(trace.name)}{off}</span></button>'
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
    columns = (
        "panel", "series", "kind",
        first.x.label if first else "x", first.y.label if first else "y", "low", "high",
    )  # fmt: skip
    note = f"{left} lines of more than {_MOST_POINTS} points are left out." if left else ""
    if all(not row[0] for row in rows):
        columns, rows = columns[1:], [row[1:] for row in rows]
    return _grid(columns, rows, f"Numbers of {picture.name}", note)


def _table(table: Table, owner: str) -> str:
    link = _download(table.csv, table.file, "text/csv") if table.csv and table.file else ""
    body = _grid(table.columns, table.rows, f"{table.title}, {owner}", table.note)
    state = " open" if table.is_open else ""
    return f"<details{state}><summary>{_e(table.title)}</summary>{body}{link}</details>"


def _grid(columns: Sequence[str], rows: Sequence[Sequence[object]], label: str, note: str = "") -> str:
    shown = rows[:_MOST_ROWS]
    numeric = [
        all(row[i] is None or (isinstance(row[i], (int, float)) and not isinstance(row[i], bool)) for row in shown)
        for i in range(len(columns))
    ]
    head = "".join(f'<th scope="col"{_side(numeric[i])}>{_e(name)}</th>' for i, name in enumerate(columns))
    body = "".join(
        "<tr>" + "".join(f"<td{_side(numeric[i])}>{_e(said(value))}</td>" for i, value in enumerate(row)) + "</tr>"
        for row in shown
    )
    more = [note] if note else []
    if len(rows) > _MOST_ROWS:
        more.append(f"{len(rows) - _MOST_ROWS:,} further rows are not shown.")
    text = f'<p class="dim">{_e(" ".join(more))}</p>' if more else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_e(label)}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{text}"
    )


def _side(numeric: bool) -> str:
    return ' class="n"' if numeric else ""
