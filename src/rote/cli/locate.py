"""`rote locate`: which weights carry a fact, and which facts depend on a weight."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rote.cli._output import JsonOption, emit_json
from rote.cli._render import show

__all__ = ["locate"]


def locate(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model directory.")],
    words: Annotated[list[str] | None, typer.Argument(metavar="[TOKENS]...", help="The context of a fact.")] = None,
    *,
    weights: Annotated[
        str | None, typer.Option(metavar="NAME[i, j]", help="Weights whose facts are wanted instead; : is all.")
    ] = None,
    fact: Annotated[int | None, typer.Option(metavar="N", help="The fact by its number, from 1.")] = None,
    source: Annotated[
        str | None,
        typer.Option("--facts", metavar="FACTS", help="The facts it was built from; found again if not given."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say which weights carry a fact, or which facts depend on some weights.

    A hashed table keeps facts apart: what is said of it is exact. Everywhere else facts share their weights, and what
    is said is measured: parts are set to zero, one at a time, and facts are run again. Contexts are written as for
    rote ask.

    Examples:

        $ rote locate rivers-model Danube mouth

        $ rote locate rivers-model --weights "layers.3.weight[5, 2]"
    """
    from rote.errors import UsageError
    from rote.pipeline import load

    if weights is not None and (words or fact is not None):
        raise UsageError("ask for the weights of a fact, or for the facts of weights, not for both at once.")
    memory = load(directory)
    table = memory.table(source)
    found = (
        memory.locate(*(words or ()), fact=fact, table=table)
        if weights is None
        else memory.dependents(weights, table=table)
    )
    if as_json:
        emit_json(found.to_dict())
    else:
        show(found.sheet())
