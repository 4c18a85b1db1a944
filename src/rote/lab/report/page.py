"""The page: sections as one HTML document that needs nothing but itself.

Style, script and plotly.js stand in the page; plotly.js packed, since it is by far the largest part. Every text is
escaped on its way in. The drawn figures are in the page too, so that it shows them without a script, on paper, and for
download.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from rote._version import __version__
from rote.lab.report.charts import Specs, chart
from rote.lab.report.html import download, escape, grid
from rote.lab.report.section import VERDICTS, Section, Table
from rote.plot.colours import css
from rote.plot.interactive import plotly_js, script

__all__ = ["render"]

_MARKS = {"holds": "✓", "does not hold": "✗", "undecided": "?", "not judged": "–"}
_CLASSES = {"holds": "yes", "does not hold": "no", "undecided": "open", "not judged": "open"}
_POLICY = (
    "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)
"""Browsers hold the page to its promise: nothing is fetched."""


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
    specs: Specs = {}
    body = [_section(section, place, specs) for section, place in zip(sections, places, strict=True)]
    style = css() + _asset("page.css")
    code = script() + _asset("page.js")
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
            f'<meta name="generator" content="rote {escape(__version__)}">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{style}</style>",
            "</head>",
            "<body>",
            '<a class="skip" href="#main">Skip to the results</a>',
            '<header class="top">',
            f"<h1>{escape(title)}</h1>",
            '<button type="button" id="theme" hidden>Theme: automatic</button>',
            "</header>",
            _contents(sections, places),
            '<main id="main">',
            *_grouped(sections, body),
            "</main>",
            f"<footer><p>Made by <code>rote report</code>, rote {escape(__version__)}. "
            "This page needs no network. plotly.js, which it carries, is © Plotly, Inc., under the MIT licence.</p>",
            "</footer>",
            f'<script type="application/json" id="figures">{_json(specs)}</script>',
            f'<script type="text/plain" id="library">{library}</script>',
            f"<script>\n{code}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _json(value: object) -> str:
    """JSON that can stand inside a script element: no `<` in it, so no end tag and no comment."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return resources.files("rote.lab.report").joinpath(name).read_text(encoding="utf-8")


def _library() -> str:
    """plotly.js, packed and in base64."""
    return base64.b64encode(gzip.compress(plotly_js("report", "a report"), 9, mtime=0)).decode("ascii")


def _grouped(sections: Sequence[Section], body: Sequence[str]) -> list[str]:
    parts: list[str] = []
    last = None
    for section, text in zip(sections, body, strict=True):
        if section.group != last:
            parts.append(f'<h2 class="group">{escape(section.group)}</h2>')
            last = section.group
        parts.append(text)
    return parts


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
        name = "" if section.name in section.title else f'<div class="dim">{escape(section.name)}</div>'
        rows.append(
            f'<tr><td><a href="#{escape(place)}">{escape(section.title)}</a>{name}</td>'
            f"{verdict}<td>{escape(section.sentence)}</td></tr>"
        )
    columns = ("What", "Verdict", "In a sentence") if claimed else ("What", "In a sentence")
    head = "".join(f'<th scope="col">{name}</th>' for name in columns)
    return (
        '<nav aria-label="Contents" class="contents">'
        f"<p>{escape(lead)}</p>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Contents and verdicts">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></nav>"
    )


def _plural(verdict: str, count: int) -> str:
    if count == 1 or verdict not in ("holds", "does not hold"):
        return verdict
    return {"holds": "hold", "does not hold": "do not hold"}[verdict]


def _badge(verdict: str) -> str:
    kind = _CLASSES.get(verdict, "open")
    mark = _MARKS.get(verdict, "?")
    return f'<span class="badge {kind}"><span aria-hidden="true">{mark}</span> {escape(verdict)}</span>'


def _section(section: Section, place: str, specs: Specs) -> str:
    lines = [f'<section id="{escape(place)}" aria-labelledby="{escape(place)}-title">']
    name = "" if section.name in section.title else f' <span class="dim">{escape(section.name)}</span>'
    lines.append(f'<h3 id="{escape(place)}-title">{escape(section.title)}{name}</h3>')
    if section.words:
        pairs = "".join(f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>" for label, text in section.words)
        lines.append(f'<dl class="words">{pairs}</dl>')
    if section.verdict or section.sentence:
        badge = _badge(section.verdict) if section.verdict else ""
        lines.append(f'<p class="verdict">{badge} {escape(section.sentence)}</p>')
    lines.extend(f'<p class="answer">{escape(line)}</p>' for line in section.answer.splitlines() if line.strip())
    for number, picture in enumerate(section.pictures, 1):
        lines.append(chart(picture, f"{place}-figure-{number}", section.name, specs))
    if section.deviations:
        items = "".join(f"<li>{escape(text)}</li>" for text in section.deviations)
        lines.append(f"<h4>Deviations</h4><ul>{items}</ul>")
    lines.extend(_table(table, section.name) for table in section.tables)
    for listing in section.listings:
        link = download(listing.text, listing.file, "text/plain") if listing.file else ""
        lines.append(
            f"<details><summary>{escape(listing.title)}</summary>"
            f'<pre tabindex="0"><code>{escape(listing.text)}</code></pre>{link}</details>'
        )
    if section.commands:
        commands = escape("\n".join(section.commands))
        lines.append(f'<h4>Run it again</h4><pre class="command" tabindex="0"><code>{commands}</code></pre>')
    if section.facts:
        parts = ", ".join(f"{escape(name)} {escape(value)}" for name, value in section.facts.items())
        lines.append(f'<p class="dim">{parts}.</p>')
    lines.append("</section>")
    return "\n".join(lines)


def _table(table: Table, owner: str) -> str:
    link = download(table.csv, table.file, "text/csv") if table.csv and table.file else ""
    body = grid(table.columns, table.rows, f"{table.title}, {owner}", table.note)
    state = " open" if table.is_open else ""
    return f"<details{state}><summary>{escape(table.title)}</summary>{body}{link}</details>"
