"""`rote build`: facts in, a verified model directory out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rote.cli import _distribution
from rote.cli._distribution import EpsilonOption, SmoothingOption, StartsOption, TaskOption, WeightOption
from rote.cli._output import JsonOption, console, emit_json, number
from rote.cli._progress import display
from rote.cli._source import ConflictOption, ContextOption, TargetsOption, TokensOption, read_any

if TYPE_CHECKING:
    from rote.memory import Memory

__all__ = ["build", "show_certificate"]


def build(
    source: Annotated[str, typer.Argument(metavar="FACTS", help="Facts file, shipped facts, or vectors.safetensors.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Directory to write.")],
    with_: Annotated[str, typer.Option("--with", help="Construction, or auto for the smallest that works.")] = "auto",
    heads: Annotated[int | None, typer.Option(help="Number of heads; planned if not given.")] = None,
    d_model: Annotated[int | None, typer.Option(help="Width of the residual stream; planned if not given.")] = None,
    d_head: Annotated[int | None, typer.Option(help="Width of a head; planned if not given.")] = None,
    d_mlp: Annotated[int | None, typer.Option(help="Width of the MLP, for mlp_fit.")] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            "--precision",
            help="Format in which every fact must be recalled: float32, or exact for bit extraction, if not given.",
        ),
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="Bit extraction: A (provable), B (for floats) or C (fewest weights).")
    ] = None,
    with_positions: Annotated[
        bool, typer.Option("--with-positions", help="Bit extraction: the order of tokens counts.")
    ] = False,
    delta: Annotated[
        float | None, typer.Option(help="Bit extraction of vectors: refuse tokens that are closer.")
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="Bit extraction of vectors: refuse tokens that are longer.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same weights.")] = 0,
    arch: Annotated[str, typer.Option(help="rote, or llama for a stock Hugging Face checkpoint.")] = "rote",
    rank1_qk: Annotated[bool, typer.Option("--rank1-qk", help="Query-key maps of rank 1 (fewer parameters).")] = False,
    refine: Annotated[
        bool,
        typer.Option("--refine", help="Where a convex fit stops short, fit more weights (no guarantee, holds more)."),
    ] = False,
    partial: Annotated[bool, typer.Option("--partial", help="Keep a model that loses facts.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace DIR if it is a model directory.")] = False,
    tokens: TokensOption = None,
    target: TargetsOption = None,
    context: ContextOption = None,
    on_conflict: ConflictOption = "error",
    task: TaskOption = "facts",
    epsilon: EpsilonOption = None,
    weight: WeightOption = None,
    smoothing: SmoothingOption = None,
    starts: StartsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build a transformer that recalls every fact; no training.

    DIR gets config.json, model.safetensors, tokenizer.json and certificate.json. Exit code 1: some fact was lost (only
    with --partial; without it nothing is written).

    Examples:

        $ rote build countries -o countries-model

        $ rote build facts.csv -o model --with dana2025_cor1 --arch rote --tokens words

        $ rote build facts.csv -o model --with kajitsuka2025_next_token --precision exact --variant C

        $ rote build trigrams.csv -o model --task distribution --d-model 8 --epsilon 0.05
    """
    from rote.building import ARCHS, build
    from rote.data import VectorTable
    from rote.errors import UnknownName
    from rote.models.checkpoint import refuse_existing

    refuse_existing(output, force)
    if _distribution.is_distribution(task):
        # Contexts repeat by design here, so there is nothing to settle.
        others = {"d_mlp": d_mlp, "refine": refine, "partial": partial, "arch": arch != "rote"}
        exact = {"variant": variant, "with_positions": with_positions, "delta": delta, "radius": radius}
        _distribution.refuse_options(task, **others, **exact, on_conflict=on_conflict != "error")
        _distribution.build_distribution(
            source,
            output,
            with_=with_,
            heads=heads,
            d_model=d_model,
            d_head=d_head,
            epsilon=epsilon,
            smoothing=smoothing,
            dtype=dtype or "float32",
            seed=seed,
            starts=starts,
            rank1_qk=rank1_qk,
            force=force,
            tokens=tokens,
            target=target,
            context=context,
            weight=weight,
            as_json=as_json,
        )
        return
    _distribution.refuse_options(task, epsilon=epsilon, weight=weight, smoothing=smoothing, starts=starts)
    kind = next((a for a in ARCHS if a == arch), None)
    if kind is None:
        raise UnknownName("architecture", arch, ARCHS)
    facts, cut = read_any(
        source,
        target=target,
        context=context,
        tokens=tokens,
        on_conflict=on_conflict,
        sequences=with_ == "kajitsuka2025_seq2seq",
    )
    n_facts = facts.n_examples if isinstance(facts, VectorTable) else facts.n_facts
    with display(n_facts, enabled=not as_json) as progress:
        memory = build(
            facts,
            with_=with_,
            n_heads=heads,
            d_model=d_model,
            d_head=d_head,
            d_mlp=d_mlp,
            dtype=dtype,
            rank1_qk=rank1_qk,
            refine=refine,
            arch=kind,
            tokens=cut,
            rng=seed,
            partial=partial,
            variant=variant,
            with_positions=with_positions,
            delta=delta,
            radius=radius,
            progress=progress,
        )
    memory.certificate["read"] = {
        "source": Path(source).name,
        "target": target,
        "context": context,
        "tokens": cut,
        "on_conflict": on_conflict,
    }
    memory.save(output, force=force)
    if as_json:
        emit_json(memory.certificate)
    else:
        show_certificate(memory, output)
    if memory.certificate["recall"][memory.certificate["dtype"]] < 1.0:
        raise typer.Exit(1)


def show_certificate(memory: Memory, directory: Path) -> None:
    """What was built, for people."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    out, c = console(), memory.certificate
    if "max_bits" in c:
        _show_exact(c, directory)
        return
    shape = c["shape"]
    heads = f"{shape['n_heads']:,} head{'s' if shape['n_heads'] > 1 else ''} of {shape['d_head']}"
    mlp = f", MLP of {shape['d_mlp']:,}" if shape["d_mlp"] > 1 else ""
    out.print(
        f"[bold]{escape(str(directory))}[/bold]: {c['facts']:,} facts by {escape(c['construction'])}, {heads}, "
        f"d_model {shape['d_model']}{mlp}, context {shape['context']}"
    )
    stored = f" ({c['stored_params']:,} stored)" if c["stored_params"] != c["params"] else ""
    estimate = c["construction"] in ("argmax_fit", "mlp_fit")
    limit = f"estimate for random tables {number(c['bound'])}" if estimate else f"bound {number(c['bound'])}"
    kind = f"stock {c['report']['model_type']} model, " if c["arch"] != "rote" else ""
    out.print(
        f"{kind}{c['params']:,} parameters{stored}, {number(c['bits_per_param'])} bits each"
        + (f"; {limit} facts" if c["bound"] else "")
        + f"; seed {c['seed']}"
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("number format", "recall", "smallest margin"):
        table.add_column(column, justify="left" if column == "number format" else "right")
    for name, recall in c["recall"].items():
        shown = "100 %" if recall == 1.0 else f"{100 * recall:.4f} %"
        mark = "  (stored)" if name == c["dtype"] else ""
        table.add_row(f"{name}{mark}", shown, number(c["min_margin"][name]))
    out.print(table)


def _show_exact(c: dict[str, Any], directory: Path) -> None:
    """The same for a bit-extraction network, whose size is depth, weights and bits."""
    from rich.markup import escape

    out, low = console(), c["lower_bounds"]
    kept = round(c["recall"][c["dtype"]] * c["facts"])
    each = f" of {c['shape']['context']:,} labels" if c["task"] == "seq2seq" else ""
    out.print(
        f"[bold]{escape(str(directory))}[/bold]: {c['facts']:,} facts{each} by {escape(c['construction'])}, "
        f"variant {c['variant']}, {c['precision']}"
    )
    out.print(
        f"{c['params']:,} non-zero weights of at most {c['max_bits']:,} bits, {c['total_bits']:,} bits in all; "
        f"depth {c['depth']:,}, width {c['width']:,}; seed {c['seed']}"
    )
    out.print(
        f"{low['ratio_bits']:.2f} times the {low['information_bits']:,.0f} bits of the labels; "
        f"any labels need at least {max(low['vc_params'], low['counting_params']):,} weights"
    )
    if c["padded_to"]:
        out.print(
            f"contexts of {c['shape']['context']} are padded to {c['padded_to']} positions, so that means are exact"
        )
    how = {"generic": "every weight read", "grouped": "after a check of every layer"}
    exactly = f"in exact arithmetic, {how[c['evaluator']]}"
    if c["dtype"] == "exact":
        out.print(f"{kept:,} of {c['facts']:,} facts recalled {exactly}")
    else:
        also = round(c["recall"]["exact"] * c["facts"])
        out.print(f"{kept:,} of {c['facts']:,} facts recalled at {c['dtype']} by torch and referee; {also:,} {exactly}")
