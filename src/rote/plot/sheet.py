"""What a result looks like as text: a title, sentences and tables. One record, for terminals and for notebooks.

Everything that people see of a table, a plan, a memory or a verification is a `Sheet` first; the command line prints it
with rich, and `Shown` gives a record the `_repr_html_` that a notebook shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Literal

__all__ = ["Grid", "Sheet", "Shown", "duration", "gigabytes", "megabytes", "number", "sheet_html", "visible"]

Align = Literal["left", "right"]


@dataclass(frozen=True)
class Grid:
    """A table of texts. Columns are aligned to the right unless named in `left`; the first is on the left."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    left: tuple[str, ...] = ()

    def align(self, column: int) -> Align:
        return "left" if column == 0 or self.columns[column] in self.left else "right"


@dataclass(frozen=True)
class Sheet:
    """A title, then lines, tables and notes, in this order; the title ends the first line where there is a `lead`."""

    title: str
    lead: str = ""
    """What follows the title on its line."""
    lines: tuple[str, ...] = ()
    grids: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()


class Shown:
    """A record that has a `sheet`, and so something to show in a notebook."""

    def sheet(self) -> Sheet:
        raise TypeError(f"{type(self).__name__} has no sheet to show.")

    def _repr_html_(self) -> str:
        return sheet_html(self.sheet())


def number(value: int | float | None, digits: int = 3) -> str:
    """Thousands separated; very large numbers as powers of ten; a dash for nothing."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}" if value < 10**12 else f"{value:.1e}"
    return f"{value:.{digits}g}"


def visible(text: str) -> str:
    """Text of others that cannot move a cursor or break a table: control characters are spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def megabytes(n_bytes: int) -> str:
    """Size with a unit that keeps it readable."""
    if n_bytes < 10**6:
        return f"{n_bytes / 1e3:.1f} kB"
    return f"{n_bytes / 1e6:,.1f} MB"


def gigabytes(n_bytes: float) -> str:
    """A number of gigabytes, to a tenth."""
    return "< 0.1" if n_bytes < 1e8 else f"{n_bytes / 1e9:,.1f}"


def duration(seconds: float) -> str:
    """A rough time with a unit that keeps it readable."""
    if seconds < 1:
        return "< 1 s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:,.0f} h"


def sheet_html(sheet: Sheet) -> str:
    """The sheet as a piece of HTML without scripts and styles of its own."""
    lead = escape(sheet.lead)
    parts = [f"<p><b>{escape(sheet.title)}</b>{lead}</p>"]
    parts += [f"<p>{escape(line)}</p>" for line in sheet.lines]
    parts += [_grid_html(grid) for grid in sheet.grids]
    parts += [f"<p><small>{escape(note)}</small></p>" for note in sheet.notes]
    return f'<div class="rote">{"".join(parts)}</div>'


def _grid_html(grid: Grid) -> str:
    def cells(row: tuple[str, ...], tag: str) -> str:
        return "".join(
            f'<{tag} style="text-align: {grid.align(k)}">{escape(cell)}</{tag}>' for k, cell in enumerate(row)
        )

    caption = f"<caption>{escape(grid.title)}</caption>" if grid.title else ""
    head = f"<thead><tr>{cells(grid.columns, 'th')}</tr></thead>"
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in grid.rows)
    return f"<table>{caption}{head}<tbody>{body}</tbody></table>"
