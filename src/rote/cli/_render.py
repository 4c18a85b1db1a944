"""One renderer for every record: a `Sheet` on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rote.cli._output import console

if TYPE_CHECKING:
    from rote.plot.sheet import Sheet

__all__ = ["show"]


def show(sheet: Sheet) -> None:
    """Print a sheet: its title in bold, tables with thin rules, notes dimmed."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    out = console()
    if sheet.title:
        out.print(f"[bold]{escape(_safe(sheet.title))}[/bold]{escape(_safe(sheet.lead))}")
    for line in sheet.lines:
        out.print(_safe(line), markup=False)
    for grid in sheet.grids:
        table = Table(
            title=grid.title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
        )
        for k, column in enumerate(grid.columns):
            table.add_column(
                escape(_safe(column)), justify=grid.align(k), overflow="fold", no_wrap=grid.align(k) == "right"
            )
        for row in grid.rows:
            table.add_row(*(escape(_safe(cell)) for cell in row))
        out.print(table)
    for note in sheet.notes:
        out.print(_safe(note), style="dim", markup=False)


def _safe(text: str) -> str:
    """Control characters of tokens and names spelled out; where a sheet breaks its lines, they stay broken."""
    from rote.plot.sheet import visible

    return "\n".join(visible(line) for line in text.split("\n"))
