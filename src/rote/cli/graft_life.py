"""The verbs of `rote graft`: a graft packed into a file, and put on its base model again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rote.cli._output import JsonOption, console, emit_json

__all__ = ["apply", "pack"]

DirectoryArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Directory that `rote graft` wrote.")]


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
