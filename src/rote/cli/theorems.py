"""`rote theorems`: the registry, as a list or one entry in full."""

from __future__ import annotations

import inspect
import sys
from typing import Annotated, Any

import typer

from rote.cli._output import JsonOption, console, emit_json

__all__ = ["theorems"]


def theorems(
    name: Annotated[str | None, typer.Argument(help="Show this one in full.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List every theorem that rote knows, or show one in full.

    Example:

        $ rote theorems dana2025_cor1
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from rote import constructions
    from rote.theorems import Theorem, get, registry

    def record(item: Theorem) -> dict[str, Any]:
        return {
            "theorem": item.key,
            "title": item.title,
            "kind": item.kind,
            "statement": item.statement,
            "promises": item.promises,
            "constructive": item.key in constructions.registry(),
            "source": str(item.citation),
            "paper": item.citation.title,
        }

    if name is not None:
        item = get(name)
        full = inspect.getdoc(sys.modules[type(item).__module__]) or item.statement
        if as_json:
            emit_json({**record(item), "text": full})
        else:
            typer.echo(full)
            typer.echo(f"\nPromises: {item.promises}.\nCite: {item.citation}, “{item.citation.title}”.")
        return
    records = [record(item) for item in registry().values()]
    if as_json:
        emit_json(records)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("theorem", "kind", "statement", "source"):
        table.add_column(column, overflow="fold", no_wrap=column == "kind")
    for row in records:
        table.add_row(
            f"[bold]{escape(row['theorem'])}[/bold]", row["kind"], escape(row["statement"]), escape(row["source"])
        )
    console().print(table)
