"""`rote report`: results as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rote.cli._output import JsonOption, emit_json
from rote.cli._render import show

__all__ = ["report"]


def report(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[DB|DIR]...",
            help="Files of `rote sweep --db`, folders of `rote reproduce -o`; reproduced/ if none is given.",
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    title: Annotated[str, typer.Option(help="Title of the page.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Write results as one HTML page that needs no network: figures, tables, claims with verdicts, configuration.

    Example:

        $ rote report heads.db -o report.html
    """
    from rote.lab.report import report as run

    page = run(sources or None, output, title=title)
    if as_json:
        emit_json(page.to_dict())
    else:
        show(page.sheet())
