"""`rote results`: what a sweep has found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rote.cli._output import JsonOption
from rote.cli._render import show

__all__ = ["results"]


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
    from rote.measurement import results as read
    from rote.measurement.results import FORMATS
    from rote.plot.figure import write_bytes

    form = "json" if as_json else format_
    if form not in ("table", *FORMATS):
        raise UnknownName("format", form, ("table", *FORMATS))
    if form == "parquet" and output is None:
        raise UsageError("parquet is no text; name a file with --output FILE.parquet.")
    if form == "table" and output is not None:
        raise UsageError("a table is for reading; give --format csv, parquet or json with --output.")
    rows = read(db, where or [])
    if form == "table":
        show(rows.sheet())
    elif output is None:
        sys.stdout.write(rows.export(form).decode())
    else:
        write_bytes(output, rows.export(form))
