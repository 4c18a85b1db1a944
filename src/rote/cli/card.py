"""`rote card`: the README.md of a model directory, written anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rote.cli._output import JsonOption, console, emit_json

__all__ = ["card"]


def card(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model directory.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace a README.md that rote did not write.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the model card of a directory anew, in the form of Hugging Face: what the certificate says, for people.

    Every directory that rote writes has one already. It is not listed in the certificate, so it may be edited.

    Example:

        $ rote card airports-model
    """
    from rote.card import write_card
    from rote.pipeline import load

    path = write_card(load(directory), force=force)
    if as_json:
        emit_json({"card": str(path), "bytes": path.stat().st_size})
    else:
        console().print(f"{path} written.", markup=False)
