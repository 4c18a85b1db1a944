"""`rote build`: facts in, a verified model directory out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rote.cli._gather import construction_options, gather, refuse_foreign, shape_options, source_options
from rote.cli._interrupts import ending_soon
from rote.cli._output import JsonOption, console, emit_json
from rote.cli._progress import display
from rote.cli._render import show
from rote.cli._source import read
from rote.config import Shape
from rote.constructions import kind_for
from rote.data.reading import Choices

__all__ = ["build"]


@gather(choices=source_options(), shape=shape_options(), options=construction_options("build"))
def build(
    source: Annotated[str, typer.Argument(metavar="FACTS", help="Facts file, shipped facts, or vectors.safetensors.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Directory to write.")],
    *,
    with_: Annotated[str, typer.Option("--with", help="Construction, or auto for the smallest that works.")] = "auto",
    arch: Annotated[
        str | None, typer.Option(help="rote, or llama for a stock Hugging Face checkpoint; rote if not given.")
    ] = None,
    shape: Shape,
    dtype: Annotated[
        str | None,
        typer.Option(help="Format in which every fact must be recalled; the construction's own if not given."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same weights.")] = 0,
    partial: Annotated[bool, typer.Option("--partial", help="Keep a model that loses facts.")] = False,
    drop_unfit: Annotated[
        bool, typer.Option("--drop-unfit", help="Leave out facts that the construction cannot hold, and list them.")
    ] = False,
    keep_best: Annotated[
        bool, typer.Option("--keep-best", help="Keep the best attempt so far when interrupted (ctrl-C).")
    ] = False,
    max_memory: Annotated[
        float | None,
        typer.Option(
            metavar="GB", help="Memory that an attempt may take; if not given most of what is free, with auto less."
        ),
    ] = None,
    without: Annotated[
        str | None,
        typer.Option(metavar="ROWS", help="Build the model that never had these rows of FACTS, all else alike."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace DIR if it is a model directory.")] = False,
    options: dict[str, Any],
    choices: Choices,
    as_json: JsonOption = False,
) -> None:
    """Build a transformer that recalls every fact; no training.

    DIR gets config.json, model.safetensors, tokenizer.json and certificate.json. What FACTS holds is found out: facts
    (with --target COL,COL an answer for every key and column), sequences (columns x1, x2, ..., y1, y2, ..., or with a
    construction for them), next-token distributions (contexts that repeat, with counts) or vectors. Exit code 1: some
    fact was lost (only with --partial, or with --keep-best and ctrl-C; without them nothing is written).

    Examples:

        $ rote build countries -o countries-model

        $ rote build facts.csv -o model --with argmax_fit --refine --tokens words

        $ rote build facts.csv -o model --with kajitsuka2025_next_token --variant C

        $ rote build unicode.csv -o model --tokens chars --target name,category

        $ rote build trigrams.csv -o model --d-model 8 --epsilon 0.05
    """
    from rote import pipeline
    from rote.data.changes import tokens_of
    from rote.models.folders import refuse_existing

    refuse_existing(output, force)
    refuse_foreign(with_, options)
    table = read(source, choices, kind=kind_for(with_, options), named=with_ != "auto")
    try:
        with ending_soon(patient=keep_best), display(table.n_facts, enabled=not as_json) as progress:
            memory = pipeline.build(
                table,
                with_,
                n_heads=shape.n_heads,
                d_model=shape.d_model,
                d_head=shape.d_head,
                d_mlp=shape.d_mlp,
                dtype=dtype,
                arch=arch,
                options=options,
                rng=seed,
                partial=partial,
                drop_unfit=drop_unfit,
                keep_best=keep_best,
                max_memory=max_memory,
                progress=progress,
                attempt=progress.attempt,
            )
            if without is not None:
                rows = read(without, choices, kind=table.kind, named=True)
                memory = memory.without(tokens_of(rows), table=table)
    except KeyboardInterrupt as stopped:
        if str(stopped):
            console(stderr=True).print(f"Stopped {stopped}.", markup=False)
        raise
    memory = memory.save(output, force=force)
    if as_json:
        emit_json(memory.certificate.to_dict())
    else:
        show(memory.sheet())
    if not memory.certificate.passed:
        raise typer.Exit(1)
