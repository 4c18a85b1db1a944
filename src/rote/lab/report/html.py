"""Pieces of HTML that every part of the page is made of; whatever comes in as a text goes out escaped."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

from rote.lab.report.section import said

__all__ = ["data_address", "download", "escape", "grid"]

_MOST_ROWS = 200


def escape(text: object) -> str:
    """A text that can stand in an element or in a quoted attribute."""
    return html.escape(str(text), quote=True)


def data_address(kind: str, content: bytes) -> str:
    """Content as an address that holds it."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def download(text: str, file: str, kind: str) -> str:
    """A link that saves a text."""
    address = data_address(f"{kind};charset=utf-8", text.encode())
    return f'<p><a class="file" download="{escape(file)}" href="{address}">{escape(file)}</a></p>'


def grid(columns: Sequence[str], rows: Sequence[Sequence[object]], label: str, note: str = "") -> str:
    """A table that scrolls by itself, of at most so many rows that a page can bear."""
    shown = rows[:_MOST_ROWS]
    numeric = [
        all(row[i] is None or (isinstance(row[i], (int, float)) and not isinstance(row[i], bool)) for row in shown)
        for i in range(len(columns))
    ]
    head = "".join(f'<th scope="col"{_side(numeric[i])}>{escape(name)}</th>' for i, name in enumerate(columns))
    body = "".join(
        "<tr>" + "".join(f"<td{_side(numeric[i])}>{escape(said(value))}</td>" for i, value in enumerate(row)) + "</tr>"
        for row in shown
    )
    more = [note] if note else []
    if len(rows) > _MOST_ROWS:
        more.append(f"{len(rows) - _MOST_ROWS:,} further rows are not shown.")
    text = f'<p class="dim">{escape(" ".join(more))}</p>' if more else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{text}"
    )


def _side(numeric: bool) -> str:
    return ' class="n"' if numeric else ""
