"""The verbs of `rote graft`: facts in and out of a graft, and a graft packed into a file and put on its base again."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rote.cli._output import JsonOption, console, emit_json

if TYPE_CHECKING:
    from rote.memory import Memory

__all__ = ["add", "apply", "pack", "remove", "update"]

_OBJECTS = 1_000_000
"""How many there may be more before garbage is looked for."""

DirectoryArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Directory that `rote graft` wrote.")]


FactsArgument = Annotated[
    str, typer.Argument(metavar="FACTS", help="Facts file, with the columns that the graft was built from.")
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR2", help="Directory to write; DIR itself if not given.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace DIR2 if it is a model directory.")]
SeedOption = Annotated[int, typer.Option(min=0, help="For what is drawn when groups of keys are solved again.")]


def add(
    directory: DirectoryArgument,
    source: FactsArgument,
    output: OutputOption = None,
    force: ForceOption = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Add facts to a graft, in seconds: only what shares weights with the new keys is solved and asked again.

    A token that no fact had, or a further answer, is taken in as long as there is room; otherwise a sentence says what
    there is no room for. If anything is lost by it, nothing is written.

    Example:

        $ rote graft add airports-smollm2 new.csv
    """
    _told("graft_add", directory, (source,), {}, output, force, seed, as_json)


def update(
    directory: DirectoryArgument,
    source: FactsArgument,
    output: OutputOption = None,
    force: ForceOption = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Give keys of a graft other answers.

    Example:

        $ rote graft update airports-smollm2 changed.csv
    """
    _told("graft_update", directory, (source,), {}, output, force, seed, as_json)


def remove(
    directory: DirectoryArgument,
    source: Annotated[
        str | None, typer.Argument(metavar="[FACTS]", help="Facts file with a column of keys to remove.")
    ] = None,
    key: Annotated[list[str] | None, typer.Option(help="A key to remove. May be repeated.")] = None,
    output: OutputOption = None,
    force: ForceOption = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Take facts out of a graft: the model says again what the original says.

    Example:

        $ rote graft remove airports-smollm2 --key KJFK
    """
    _told("graft_remove", directory, (source,), {"keys": tuple(key or ())}, output, force, seed, as_json)


def _told(
    verb: str,
    directory: Path,
    given: tuple[str | None, ...],
    more: dict[str, Any],
    output: Path | None,
    force: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Do it, and say what was done and asked again."""
    from rote.cli._progress import display

    # Libraries make a million objects that stay, and looking for garbage among them takes a good part of a second.
    gc.set_threshold(_OBJECTS)
    from rote.operate import regraft

    with display(0, enabled=not as_json) as progress:
        change = getattr(regraft, verb)
        memory: Memory = change(directory, *given, output=output, force=force, seed=seed, progress=progress, **more)
    if as_json:
        emit_json(memory.certificate.to_dict())
        return
    from rote.constructions.graft import change_lines

    for line in (f"{output or directory}: {memory.certificate.facts:,} facts", *change_lines(memory.certificate)):
        console().print(line, markup=False)


def pack(
    directory: DirectoryArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write, such as facts.graft.")],
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write what a graft adds to its model as one small file, to be passed on without the model.

    Example:

        $ rote graft pack airports-smollm2 -o airports.graft
    """
    from rote.operate.packing import graft_pack

    sizes = graft_pack(directory, output, force=force)
    if as_json:
        emit_json({"file": str(output), **sizes})
    else:
        console().print(
            f"{output}: {sizes['bytes']:,} bytes for {sizes['of']:,} of the directory; {sizes['of_base']} of its "
            f"{sizes['files']} files are the base model's as they are.",
            markup=False,
        )


def apply(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model that the graft was made for.")],
    graft: Annotated[Path, typer.Argument(metavar="FILE", help="File that `rote graft pack` wrote.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Directory to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace DIR if it is a model directory.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Put a packed graft on the model that it was made for: the same files as before, bit for bit.

    A model with another hash is refused, and so is a file that was changed.

    Example:

        $ rote graft apply SmolLM2-135M-Instruct.Q4_1.gguf airports.graft -o airports-smollm2
    """
    from rote.operate.packing import graft_apply

    memory = graft_apply(model, graft, output, force=force)
    if as_json:
        emit_json(memory.certificate.to_dict())
    else:
        console().print(
            f"{output}: {memory.certificate.facts:,} facts of {memory.certificate.facts_name}; all files have the "
            "hashes of the graft that was packed.",
            markup=False,
        )
