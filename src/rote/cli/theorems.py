"""`rote theorems`: the registry, as a list or one entry in full."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rote.cli._output import JsonOption, console, emit_json
from rote.cli._render import show
from rote.plot.sheet import Grid, Sheet

if TYPE_CHECKING:
    from rote.theorems import Theorem

__all__ = ["theorems"]


def theorems(
    name: Annotated[str | None, typer.Argument(help="Show this one in full; a key, or a file of your own.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List every theorem that rote knows, or show one in full.

    Example:

        $ rote theorems dana2025_cor1
    """
    from rote.theorems import faults, get, registry

    if name is None:
        records = [_record(item) for item in registry().values()]
        emit_json(records) if as_json else show(_list(records))
        for fault in faults():
            console(stderr=True).print(str(fault), markup=False)
        return
    theorem = get(name)
    text = inspect.getdoc(sys.modules[type(theorem).__module__]) or theorem.statement
    if as_json:
        emit_json({**_record(theorem), "text": text})
    else:
        cite = f"Cite: {theorem.citation}, “{theorem.citation.title}”."
        typer.echo(f"{text}\n\nPromises: {theorem.promises}.\n{cite}")


def _record(theorem: Theorem) -> dict[str, Any]:
    from rote import constructions

    return {
        "theorem": theorem.key,
        "title": theorem.title,
        "kind": theorem.kind,
        "statement": theorem.statement,
        "promises": theorem.promises,
        "constructive": theorem.key in constructions.registry(),
        "source": str(theorem.citation),
        "paper": theorem.citation.title,
    }


def _list(records: list[dict[str, Any]]) -> Sheet:
    columns = ("theorem", "kind", "statement", "source")
    rows = tuple(tuple(record[column] for column in columns) for record in records)
    return Sheet("", grids=(Grid(columns, rows, left=columns),))
