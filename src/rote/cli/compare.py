"""`rote compare`: two models side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rote.cli._output import JsonOption, emit_json
from rote.cli._render import show

__all__ = ["compare"]


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="Model directory.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
    source: Annotated[
        str | None, typer.Argument(metavar="[FACTS]", help="The facts to ask both; those of A if not given.")
    ] = None,
    *,
    changed_weights: Annotated[
        bool, typer.Option("--changed-weights", help="Take weights that are not those of the certificates.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare two models on the same facts: kept, lost and changed; weights, logits; what an attacker could tell.

    The attacker sees logits, and guesses whether a context with an answer was a fact of the model. Where B was not
    given some facts of A, it is these that he guesses about: what he gains on a model that never had them is chance, or
    what the other facts give away.

    Example:

        $ rote compare with-model without-model
    """
    from rote.operate.compare import compare as compared
    from rote.pipeline import load

    memory = load(first, changed_weights=changed_weights)
    table = memory.table(source)
    found = compared(first, second, table, changed_weights=changed_weights)
    if as_json:
        emit_json(found.to_dict())
    else:
        show(found.sheet())
