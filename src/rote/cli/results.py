"""`rote results`: what a sweep has found."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rote.cli._output import JsonOption, console, emit_json

if TYPE_CHECKING:
    import polars as pl

__all__ = ["results"]

_FIRST = ("n_heads", "d_model", "d_head", "context", "vocab", "n_layers", "d_mlp", "recipe", "by", "n_facts", "seed")
_LAST = ("status", "capacity", "share", "published", "params", "duration", "reason")
_ROWS = 60


def results(
    db: Annotated[Path, typer.Argument(metavar="DB", help="The file that `rote sweep --db` wrote.")],
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="Only rows with, as in n_heads>=6; repeat it, or join by ' and '."),
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="table, csv, parquet or json.")] = "table",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file; needed for parquet.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show or export the rows of a sweep. The file is only read.

    Example:

        $ rote results heads.db --where "n_heads>=6 and status=done" --format csv
    """
    from rote.errors import UnknownName, UsageError
    from rote.measure import Journal
    from rote.measure.where import select

    form = "json" if as_json else format_
    if form not in ("table", "csv", "parquet", "json"):
        raise UnknownName("format", form, ("table", "csv", "parquet", "json"))
    if form == "parquet" and output is None:
        raise UsageError("parquet is no text; name a file with --output FILE.parquet.")
    if form == "table" and output is not None:
        raise UsageError("a table is for reading; give --format csv, parquet or json with --output.")
    with Journal(db, write=False) as journal:
        rows = select(list(journal.rows()), where or [])
    if form == "table":
        _table(rows)
    elif form == "json":
        if output is None:
            emit_json(rows)
        else:
            import json

            text = json.dumps(rows, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
            _write(output, text.encode())
    else:
        _export(rows, form, output)


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(rows, infer_schema_length=None)


def _export(rows: list[dict[str, Any]], form: str, output: Path | None) -> None:
    frame = _frame(rows)
    buffer = io.BytesIO()
    if form == "csv":
        frame.write_csv(buffer)
    else:
        frame.write_parquet(buffer)
    if output is None:
        sys.stdout.write(buffer.getvalue().decode())
    else:
        _write(output, buffer.getvalue())


def _write(output: Path, content: bytes) -> None:
    from rote.data._atomic import write_atomically

    def fill(part: Path) -> None:
        part.write_bytes(content)

    write_atomically(output, fill)


def _table(rows: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    out = console()
    if not rows:
        out.print("No rows.")
        return
    # What is the same everywhere is said once.
    columns = [name for name in (*_FIRST, *_LAST) if any(row.get(name) not in (None, "") for row in rows)]
    same = {name: rows[0].get(name) for name in columns if len(rows) > 1 and len({str(r.get(name)) for r in rows}) == 1}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown = [name for name in columns if name not in same]
    for name in shown:
        table.add_column(
            name, justify="left" if name in ("recipe", "by", "status", "reason") else "right", overflow="fold"
        )
    for row in rows[:_ROWS]:
        table.add_row(*(escape(_cell(row.get(name))) for name in shown))
    out.print(table)
    if len(rows) > _ROWS:
        out.print(f"and {len(rows) - _ROWS:,} more; --format csv has all.", markup=False)
    said = ", ".join(f"{name} {_cell(value)}" for name, value in same.items())
    out.print(f"{len(rows):,} rows" + (f"; everywhere: {said}." if said else "."), style="dim", markup=False)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
