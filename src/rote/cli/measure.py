"""`rote measure`: how many facts does a shape really hold?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rote.cli._interrupts import ending_soon
from rote.cli._measuring import DeviceOption, MemoryOption, working
from rote.cli._output import JsonOption, emit_json
from rote.cli._render import show

__all__ = ["measure"]


def measure(
    heads: Annotated[int, typer.Option(help="Heads in a layer, H.")],
    d_model: Annotated[int, typer.Option(help="Width of the residual stream, d.")],
    vocab: Annotated[int, typer.Option(help="Tokens N; classes for the family layer, 0 there for real targets.")],
    context: Annotated[int, typer.Option(help="Tokens (or vectors) in a context, S.")],
    d_head: Annotated[int | None, typer.Option(help="Width of a head, d_h; d_model if not given.")] = None,
    layers: Annotated[int, typer.Option(help="Layers, L.")] = 1,
    d_mlp: Annotated[int, typer.Option(help="Width of the MLP; 0 for attention only.")] = 0,
    gated: Annotated[bool, typer.Option("--gated", help="A gated MLP (three matrices).")] = False,
    recall: Annotated[float, typer.Option(help="Share of the facts that must come back.")] = 1.0,
    with_: Annotated[
        str, typer.Option("--with", help="train, build (the best construction), or a construction.")
    ] = "train",
    recipe: Annotated[str, typer.Option(help="How to train: best, dana2025, mahdavi2024, ...")] = "best",
    family: Annotated[
        str | None, typer.Option(help="transformer, aot, prenorm or layer; the recipe's own if not given.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds: facts and weights of their own.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="The first of the seeds.")] = 0,
    tolerance: Annotated[float, typer.Option(help="Stop when the bracket is this narrow, as a share.")] = 0.02,
    steps: Annotated[int | None, typer.Option(help="Steps of training; the recipe's own if not given.")] = None,
    sharing: Annotated[str, typer.Option(help="Vectors: own, shared, or the share of common context rows.")] = "own",
    beside: Annotated[bool, typer.Option(help="Measure the constructions at this shape too.")] = True,
    max_memory: MemoryOption = None,
    device: DeviceOption = "cpu",
    journal: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep every try there; the same command goes on from it.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The largest number of random facts that a shape recalls, by training or by construction.

    Bracketing, then bisection, with a stack of seeds; the bounds and the constructions stand beside it. Interrupted, it
    says what is known so far; with --journal the same command goes on from there.

    Example:

        $ rote measure --heads 4 --d-model 8 --vocab 20 --context 2 --seeds 3
    """
    from rote.measurement import measure as run

    with ending_soon(), working("measuring", enabled=not as_json) as note:
        measurement = run(
            n_heads=heads,
            d_model=d_model,
            context=context,
            vocab=vocab,
            d_head=d_head,
            n_layers=layers,
            d_mlp=d_mlp,
            gated=gated,
            with_=with_,
            recipe=recipe,
            family=family,
            recall=recall,
            tolerance=tolerance,
            steps=steps,
            sharing=sharing,
            seeds=seeds,
            seed=seed,
            beside=beside,
            max_memory=max_memory,
            device=device,
            journal=journal,
            note=note,
        )
    if as_json:
        emit_json(measurement.to_dict())
    else:
        show(measurement.sheet())
