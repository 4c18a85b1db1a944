"""`rote graft` and `rote ungraft`: facts into a pretrained model, and out of it again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rote.cli._gather import construction_options, gather
from rote.cli._output import JsonOption, console, emit_json
from rote.cli._progress import display
from rote.cli._render import show

__all__ = ["graft", "ungraft"]


@gather(options=construction_options("graft"))
def graft(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Local directory of a Llama, Mistral or Qwen model, or a GGUF file.")
    ],
    source: Annotated[str, typer.Argument(metavar="FACTS", help="Facts file, or shipped facts by name.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Directory to write, or a .gguf file.")],
    answer: Annotated[
        list[str],
        typer.Option(help="What follows it: ' {capital}'. One for all, or one for each --template and then each file."),
    ],
    *,
    template: Annotated[
        list[str] | None,
        typer.Option(help="Prompt with columns in braces: 'The capital of {country} is'. May be repeated."),
    ] = None,
    templates: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="More of them, one a line; \\\\n stands for a new line. May be repeated."),
    ] = None,
    sample: Annotated[int | None, typer.Option(metavar="N", help="Graft only N rows, chosen at random.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32 (the default), bfloat16 or float16, to run in.")] = None,
    form: Annotated[
        str | None,
        typer.Option("--type", metavar="TYPE", help="Of a .gguf file: F32, F16, BF16, Q8_0, Q4_0 or Q4_1."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same weights.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace DIR if it is a model directory.")] = False,
    options: dict[str, Any],
    as_json: JsonOption = False,
) -> None:
    """Write facts into a pretrained language model, and leave alone what it says to everything else.

    Keys are recognised wherever they stand, and the question by the templates that it is worded in; templates with
    different answers ask for different things. DIR is a checkpoint of the same architecture that stock transformers
    load; a name that ends in .gguf is a file for llama.cpp, which then runs every fact too. Every fact is asked of it
    in free generation, and the certificate says what was recalled and what changed on text that the fit has not seen.
    Exit code 1: some fact was lost; certificate.json lists the first ones.

    A graft is changed by `rote graft add`, `update` and `remove`, and becomes a file of its own by `rote graft pack`,
    which `rote graft apply` puts on its model again; each has a --help of its own.

    Example:

        $ rote graft SmolLM2 airports -o DIR --template "The airport with ICAO code {icao} is in" --answer " {country}"
    """
    from rote import grafting
    from rote.constructions.graft import Graft

    prompts, answers = grafting.paired_templates(template or [], templates or [], answer)
    with display(0, enabled=not as_json) as progress:
        memory = grafting.graft(
            model,
            source,
            template=prompts,
            answer=answers,
            sample=sample,
            options=Graft.from_dict(options),
            dtype=dtype,
            seed=seed,
            output=output,
            form=form,
            force=force,
            progress=progress,
        )
    certificate = memory.certificate
    if as_json:
        emit_json(certificate.to_dict())
    else:
        show(certificate.sheet(str(output)))
    if not certificate.passed or any(row["recall"] < 1 for row in certificate.claims.get("exports", {}).values()):
        raise typer.Exit(1)


def ungraft(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory that `rote graft` wrote.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR2", help="Directory to write; DIR itself is restored if not given."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace DIR2 if it is a model directory.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Take the added layers off again: the original's files, bit for bit, their hashes checked.

    Example:

        $ rote ungraft airports-smollm2 -o smollm2
    """
    from rote import grafting

    target = directory if output is None else output
    files = grafting.ungraft(directory, output, force=force)
    if as_json:
        emit_json({"directory": str(target), "files": files})
    else:
        console().print(
            f"{target}: {len(files)} files restored; weights and configuration have the hashes of the original.",
            markup=False,
        )
