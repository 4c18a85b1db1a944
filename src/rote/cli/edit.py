"""`rote edit`: single facts of a model changed, forgotten or added."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli._output import JsonOption, emit_json
from rote.cli._progress import display
from rote.cli._render import show

if TYPE_CHECKING:
    from rote.data.changes import Change
    from rote.memory import Memory

__all__ = ["edit"]


def edit(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model directory.")],
    source: Annotated[
        str | None, typer.Argument(metavar="[FACTS]", help="The facts it was built from; found again if not given.")
    ] = None,
    *,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="CONTEXT ANSWER", help="Give a fact another answer.")
    ] = None,
    forget: Annotated[list[str] | None, typer.Option(metavar="CONTEXT", help="Take a fact out of the weights.")] = None,
    insert: Annotated[list[str] | None, typer.Option(metavar="CONTEXT ANSWER", help="Add a fact.")] = None,
    changes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Table of changes, with columns change, context and answer.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR2", help="Directory to write; DIR if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="For what is drawn in the place of something forgotten.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace DIR2 if it is a model directory.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Change, forget or add single facts of a model, and certify all of it again.

    As few weights as can be are touched: in a hashed table those of the facts' rows. Every other fact is run through
    the old and the new weights, and the certificate says for how many all logits are the same, bit by bit. Contexts are
    written as for rote ask; where tokens contain spaces, with tabs between them. What a construction cannot change is
    refused, and nothing is written. The file of --changes has the word set, forget or insert in its first column.

    Examples:

        $ rote edit rivers-model --set "Danube mouth" "Adriatic" -o edited

        $ rote edit airports-model --forget KJFK --changes changes.csv
    """
    from rote.errors import UsageError
    from rote.models.folders import refuse_existing
    from rote.operate.edit import changes_of
    from rote.operate.edit import edit as edited
    from rote.pipeline import load

    target, replaced = output or directory, force or output is None
    refuse_existing(target, replaced)
    memory = load(directory)
    wanted = [] if changes is None else _listed(memory, changes)
    wanted += changes_of(memory, _pairs(set_), forget, _pairs(insert))
    if not wanted:
        raise UsageError(
            "nothing to change; say --set CONTEXT ANSWER, --forget CONTEXT, --insert CONTEXT ANSWER or --changes."
        )
    table = memory.table(source)
    with display(table.n_facts, enabled=not as_json) as progress:
        memory = edited(memory, wanted, table=table, rng=seed, progress=progress)
    memory = memory.save(target, force=replaced)
    if as_json:
        emit_json(memory.certificate.to_dict())
    else:
        show(memory.sheet())


def _pairs(values: list[str] | None) -> dict[str | tuple[str, ...], str]:
    """Contexts with answers, of which the command line has made one argument; a context has one answer."""
    from rote.errors import UsageError

    pairs: dict[str | tuple[str, ...], str] = {}
    for value in values or []:
        context, found, answer = value.partition("\0")
        if not found or context in pairs:
            raise UsageError(f"give {context!r} one answer, as in --set CONTEXT ANSWER.")
        pairs[context] = answer
    return pairs


def _listed(memory: Memory, path: Path) -> list[Change]:
    """The changes of a file: CSV, TSV, JSONL or Parquet."""
    from rote.data.changes import ACTIONS
    from rote.data.files import read_raw
    from rote.errors import DataError, RoteError
    from rote.operate.edit import changes_of

    raw = read_raw(path)
    names = ("change", "context", "answer")
    missing = [name for name in names[:2] if name not in raw.columns]
    if missing:
        raise DataError(f"{path} has no column {missing[0]!r}; a table of changes has change, context and answer.")
    actions, contexts = raw.cells("change").to_list(), raw.cells("context").to_list()
    answers = raw.stripped("answer").to_list() if "answer" in raw.columns else [None] * len(actions)
    changes: list[Change] = []
    for i, (action, context, answer) in enumerate(zip(actions, contexts, answers, strict=True)):
        if action not in ACTIONS:
            raise DataError(f"{path}: {raw.place(i)}: {action!r} is no change; write {', '.join(ACTIONS)}.")
        if bool(answer) == (action == "forget"):
            raise DataError(f"{path}: {raw.place(i)}: {action} {'needs an' if not answer else 'takes no'} answer.")
        try:
            given = {"set": ({context: answer}, None, None), "forget": (None, [context], None)}
            changes += changes_of(memory, *given.get(action, (None, None, {context: answer})))
        except RoteError as error:
            raise DataError(f"{path}: {raw.place(i)}: {error}") from None
    return changes
