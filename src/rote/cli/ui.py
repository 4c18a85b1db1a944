"""`rote ui`: the explorer in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rote.cli._output import JsonOption, console

__all__ = ["ui"]


def ui(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0 for any free one.")] = 7683,
    folder: Annotated[
        Path,
        typer.Option("--dir", metavar="DIR", help="Folder whose results, models and figures are shown; only read."),
    ] = Path(),
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Open the explorer: bounds to play with, models to build and question, results to look at.

    It listens on this machine only and needs no network. What it writes goes to a temporary folder that is removed
    when it ends, with ctrl-C.

    Example:

        $ rote ui --dir results
    """
    import json
    import sys

    from rote.web.server import serve

    def say(address: str) -> None:
        if as_json:
            sys.stdout.write(json.dumps({"address": address}) + "\n")
            sys.stdout.flush()
        else:
            console(stderr=True).print(f"The explorer is at {address} (ctrl-C ends it).", markup=False)

    serve(port, folder, browser=not no_browser, say=say)
