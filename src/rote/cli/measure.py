"""`rote measure`: how many facts does a shape really hold?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli._measuring import DeviceOption, MemoryOption, check_device, memory_bytes, working
from rote.cli._output import JsonOption, console, emit_json, number

if TYPE_CHECKING:
    from rote.measure import Measurement

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
    by: Annotated[str, typer.Option(help="train, build (the best construction), or a construction.")] = "train",
    recipe: Annotated[str, typer.Option(help="How to train: best, dana2025, mahdavi2024, ...")] = "best",
    family: Annotated[
        str | None, typer.Option(help="transformer, aot, prenorm or layer; the recipe's own if not given.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds: facts and weights of their own.")] = 5,
    tolerance: Annotated[float, typer.Option(help="Stop when the bracket is this narrow, as a share.")] = 0.02,
    steps: Annotated[int | None, typer.Option(help="Steps of training; the recipe's own if not given.")] = None,
    sharing: Annotated[str, typer.Option(help="Vectors: own, shared, or the share of common context rows.")] = "own",
    beside: Annotated[bool, typer.Option(help="Measure the constructions at this shape too.")] = True,
    max_memory: MemoryOption = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """The largest number of random facts that a shape recalls, by training or by construction.

    Bracketing, then bisection, with a stack of seeds; the bounds and the constructions stand beside it.

    Example:

        $ rote measure --heads 4 --d-model 8 --vocab 20 --context 2 --seeds 3
    """
    from rote.data.generate import check_sharing
    from rote.measure import Cell
    from rote.measure import measure as run

    cell = Cell(
        n_heads=heads,
        d_model=d_model,
        context=context,
        vocab=vocab,
        d_head=d_head,
        n_layers=layers,
        d_mlp=d_mlp,
        gated=gated,
        by=by,
        recipe=recipe,
        family=family,
        recall=recall,
        tolerance=tolerance,
        steps=steps,
        sharing=check_sharing(sharing),
    )
    with working("measuring", enabled=not as_json) as note:
        found = run(
            cell,
            seeds=seeds,
            beside=beside,
            max_memory=memory_bytes(max_memory),
            device=check_device(device),
            note=note,
        )
    if as_json:
        emit_json(found.to_dict())
    else:
        _show(found)


def _show(found: Measurement) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    out = console()
    cell, arch = found.cell, found.cell.arch
    targets = "real targets" if cell.regression else f"{cell.vocab:,} {'classes' if cell.vectors else 'tokens'}"
    shape = (
        f"{arch.n_layers} layer{'s' if arch.n_layers > 1 else ''}, {arch.n_heads} heads of width {arch.d_head}, "
        f"d_model {arch.d_model}, d_mlp {arch.d_mlp}, context {arch.context}, {targets}"
    )
    out.print(f"[bold]{shape}[/bold]")
    out.print(f"{found.params:,} parameters; recall of {100 * cell.recall:.4g} %; {len(found.by_seed)} seeds\n")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", overflow="fold")
    for column in ("facts", "95 % interval", "bits/param"):
        table.add_column(column, justify="right", no_wrap=True)
    way = f"trained ({cell.recipe})" if cell.by == "train" else f"built ({_builders(found)})"
    span = "–" if found.interval is None else f"{found.interval[0]:,.0f} to {found.interval[1]:,.0f}"
    table.add_row(f"[bold green]{escape(way)}[/bold green]", number(found.capacity), span, number(found.bits_per_param))
    for item in found.built:
        bits = None if item.capacity is None else item.capacity * cell.bits_per_fact / found.params
        table.add_row(
            f"built ({escape(item.construction)})",
            number(item.capacity),
            "",
            number(None if bits is None or cell.regression else bits),
        )
    table.add_section()
    for bound in found.bounds:
        table.add_row(f"{bound.kind}: {escape(bound.theorem)}", number(bound.facts), "", number(bound.bits_per_param))
    out.print(table)
    low = min(item["capacity"] for item in found.by_seed)
    high = max(item["capacity"] for item in found.by_seed)
    out.print(f"[dim]Seeds from {low:,} to {high:,}; brackets are {100 * cell.tolerance:.3g} % wide or narrower.[/dim]")
    for item in found.built:
        if item.capacity is None:
            out.print(f"[dim]{escape(item.construction)}: {escape(item.reason.rstrip('.'))}.[/dim]")
    for note in found.notes:
        out.print(f"[yellow]{escape(note)}[/yellow]")


def _builders(found: Measurement) -> str:
    return ", ".join(dict.fromkeys(item["construction"] for item in found.by_seed))
