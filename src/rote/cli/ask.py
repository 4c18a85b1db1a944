"""`rote ask`: question a model."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
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
    """Ask a model for what follows a context; without words, ask again and again.

    A model of distributions prints the true distribution beside its own. A grafted model goes on with a text. Tokens
    are separate words, or one text: characters for models built with --tokens chars; otherwise separated by white space
    (by a tab, where tokens contain spaces themselves and cannot be told apart).

    Examples:

        $ rote ask airports-model KJFK

        $ rote ask countries-model France capital
    """
    from rote.errors import UsageError
    from rote.pipeline import load

    memory = load(directory)
    if words:
        _answer(memory, words, top, as_json)
        return
    if sys.stdin is None:
        return
    asked = sys.stdin.isatty()
    if asked:
        length = int(memory.certificate.shape["context"])
        console().print(f"{memory.certificate.facts:,} facts, contexts of {length}; an empty line or ctrl-D ends.")
    failed = False
    while True:
        try:
            line = input("? " if asked else "")
        except EOFError:
            break
        except UnicodeDecodeError:
            raise UsageError("standard input is not UTF-8 text; give the questions as UTF-8, one per line.") from None
        if not line.strip() and asked:
            break
        if line.strip():
            failed = not _try(memory, line, top, as_json) or failed
    if failed and not asked:
        raise typer.Exit(2)


def _try(memory: Memory, line: str, top: int, as_json: bool) -> bool:
    """In a conversation a mistake is said and the conversation goes on."""
    from rote.errors import RoteError

    try:
        _answer(memory, [line], top, as_json, lines=True)
    except RoteError as error:
        sys.stderr.write(f"rote: {error}\n")
        return False
    return True


def _answer(memory: Memory, words: list[str], top: int, as_json: bool, *, lines: bool = False) -> None:
    answers = memory.ask(*words, top=top)
    if as_json:
        record = [asdict(answer) for answer in answers]
        if lines:
            # One document per line, so that many questions make JSON Lines.
            typer.echo(json.dumps(record, ensure_ascii=False))
        else:
            emit_json(record)
        return
    out = console()
    if answers[0].known is False and not answers[0].unknown:
        out.print("not in the table that this was built from; what the model says is a guess", style="dim")
    if memory.model.speaks_labels or answers[0].unknown:
        out.print("  ".join(answer.token for answer in answers), style="bold", markup=False)
        return
    off = memory.divergence(words)
    if off is not None:
        out.print(f"  model     true    divergence {off:.4f} nats", style="dim", markup=False)
    for place, answer in enumerate(answers):
        beside = "" if answer.true is None else f"{100 * answer.true:6.2f} % "
        line = f"{100 * answer.probability:6.2f} % {beside} {answer.token}"
        out.print(line, style="bold" if place == 0 else "dim", markup=False)
