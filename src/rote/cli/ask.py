"""`rote ask`: question a model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli._output import JsonOption, console, emit_json

if TYPE_CHECKING:
    from rote.memory import Memory

__all__ = ["ask"]


def ask(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model directory.")],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[TOKENS]...", help="The context; none to be asked.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many answers to print.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """Ask a model for the token that follows a context; without words, ask again and again.

    Tokens are separate words, or one text: characters for models built with --tokens chars; otherwise separated by
    white space (by a tab, where tokens contain spaces themselves and cannot be told apart).

    Examples:

        $ rote ask airports-model KJFK

        $ rote ask countries-model France capital
    """
    from rote.memory import load

    memory = load(directory)
    if words:
        _answer(memory, words, top, as_json)
        return
    out = console()
    example = int(memory.certificate["shape"]["context"])
    if sys.stdin.isatty():
        out.print(f"{memory.certificate['facts']:,} facts, contexts of {example}; an empty line or ctrl-D ends.")
    while True:
        try:
            line = input("? " if sys.stdin.isatty() else "").strip()
        except EOFError:
            break
        if not line:
            break
        _try(memory, line, top, as_json)


def _try(memory: Memory, line: str, top: int, as_json: bool) -> None:
    """In a conversation a mistake is said and the conversation goes on."""
    from rote.errors import RoteError

    try:
        _answer(memory, [line], top, as_json)
    except RoteError as error:
        sys.stderr.write(f"rote: {error}\n")


def _answer(memory: Memory, words: list[str], top: int, as_json: bool) -> None:
    answers = memory.ask(*words, top=top)
    if as_json:
        emit_json([{"token": a.token, "probability": a.probability, "logit": a.logit} for a in answers])
        return
    out = console()
    for place, answer in enumerate(answers):
        share = f"{100 * answer.probability:6.2f} %"
        out.print(f"{share}  {answer.token}", style="bold" if place == 0 else "dim", markup=False)
