"""`rote bound`: what every theorem says about a shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli import _distribution, _distribution_limits
from rote.cli._distribution import EpsilonOption, SmoothingOption, StartsOption, TaskOption, WeightOption
from rote.cli._output import JsonOption, console, emit_json, number
from rote.cli._source import TargetOption, TokensOption

if TYPE_CHECKING:
    from rich.table import Table

    from rote.theorems import Bound

__all__ = ["bound"]

_HEADINGS = {
    "lower": "lower: this much fits",
    "upper": "upper: more never fits",
    "order": "orders of magnitude",
    "empirical": "measured, no theorem",
}


def bound(
    source: Annotated[
        str | None, typer.Argument(metavar="[FACTS]", help="Distribution: facts file with repeated contexts.")
    ] = None,
    heads: Annotated[int | None, typer.Option(help="Heads in a layer, H.")] = None,
    d_model: Annotated[int | None, typer.Option(help="Width of the residual stream, d.")] = None,
    context: Annotated[
        str | None, typer.Option(help="Tokens in a context, S or n; with FACTS: its context columns, as in COL,COL.")
    ] = None,
    vocab: Annotated[int | None, typer.Option(help="Tokens in the vocabulary, N.")] = None,
    d_head: Annotated[int | None, typer.Option(help="Width of a head, d_h; d_model if not given.")] = None,
    layers: Annotated[int, typer.Option(help="Layers, L.")] = 1,
    d_mlp: Annotated[int, typer.Option(help="Width of the MLP; 0 for attention only.")] = 0,
    dtype: Annotated[str, typer.Option(help="float64, float32, bfloat16, float16 or exact.")] = "float32",
    shared_context: Annotated[bool, typer.Option("--shared-context", help="All examples have one context.")] = False,
    kruskal: Annotated[int | None, typer.Option(help="Kruskal rank Q of the queries, if known.")] = None,
    last_tokens: Annotated[int | None, typer.Option(help="Distinct last tokens L, if known.")] = None,
    facts: Annotated[int | None, typer.Option(help="Facts you have in mind, for accuracy beyond the capacity.")] = None,
    theorem: Annotated[list[str] | None, typer.Option("--theorem", help="Only this theorem; may be repeated.")] = None,
    task: TaskOption = "facts",
    epsilon: EpsilonOption = None,
    weight: WeightOption = None,
    smoothing: SmoothingOption = None,
    starts: StartsOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Distribution: seed of the starts.")] = 0,
    tokens: TokensOption = None,
    target: TargetOption = None,
    as_json: JsonOption = False,
) -> None:
    """How many facts does this shape hold, according to every theorem?

    Example:

        $ rote bound --heads 8 --d-model 64 --d-head 64 --context 32 --vocab 1000

        $ rote bound --task distribution trigrams.csv --d-model 8
    """
    from rote.capacity import bounds
    from rote.config import Architecture, check_dtype
    from rote.errors import UsageError
    from rote.theorems import Setting

    if _distribution.is_distribution(task):
        shape = {"heads": heads, "vocab": vocab, "d_head": d_head, "d_mlp": d_mlp or None, "kruskal": kruskal}
        rest = {"last_tokens": last_tokens, "facts": facts, "theorem": theorem, "shared_context": shared_context}
        _distribution.refuse_options(task, **shape, **rest)
        if source is None:
            raise UsageError(
                "--task distribution is about a table: give a facts file, as in `rote bound F --task ...`."
            )
        _distribution_limits.bound_distribution(
            source,
            d_model=d_model,
            epsilon=epsilon,
            smoothing=smoothing,
            starts=starts,
            seed=seed,
            tokens=tokens,
            target=target,
            context=context,
            weight=weight,
            as_json=as_json,
        )
        return
    given = {"epsilon": epsilon, "weight": weight, "smoothing": smoothing, "starts": starts}
    _distribution.refuse_options(task, **given, tokens=tokens, target=target, FACTS=source)
    needed = {"heads": heads, "d-model": d_model, "context": context, "vocab": vocab}
    missing = [name for name, value in needed.items() if value is None]
    if heads is None or d_model is None or context is None or vocab is None:
        raise UsageError(f"a shape needs --heads, --d-model, --context and --vocab; missing: --{', --'.join(missing)}.")
    if not context.lstrip("-").isdecimal():
        raise UsageError(f"--context must be a whole number, got {context!r}.")

    arch = Architecture(
        n_heads=heads,
        d_model=d_model,
        d_head=d_model if d_head is None else d_head,
        context=int(context),
        vocab=vocab,
        n_layers=layers,
        d_mlp=d_mlp,
    )
    setting = Setting(
        arch,
        dtype=check_dtype(dtype),
        shared_context=shared_context,
        kruskal=kruskal,
        distinct_last=last_tokens,
        n_facts=facts,
    )
    found = bounds(setting, only=theorem or None)
    if as_json:
        emit_json([item.to_dict() for item in found])
        return
    out = console()
    parts = arch.count("full")
    out.print(
        f"[bold]{arch.n_layers} layer{'s' if arch.n_layers > 1 else ''}, {arch.n_heads} heads of width {arch.d_head}, "
        f"d_model {arch.d_model}, d_mlp {arch.d_mlp}, context {arch.context}, vocabulary {arch.vocab:,}[/bold]"
    )
    out.print(
        f"{parts.total:,} parameters in {setting.dtype}: embedding {parts.embedding:,}, positions {parts.positions:,}, "
        f"attention {parts.attention:,}, MLP {parts.mlp:,}, unembedding {parts.unembedding:,}\n"
    )
    out.print(_table(found))
    out.print("[dim]?  depends on the data   ✗  fails, so the theorem is silent here   –  no number[/dim]")


def _table(found: list[Bound]) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("theorem", overflow="fold", ratio=5)
    table.add_column("facts", justify="right", no_wrap=True)
    table.add_column("params", justify="right", no_wrap=True)
    table.add_column("bits/\nparam", justify="right", no_wrap=True)
    table.add_column("conditions", ratio=4)
    for kind, heading in _HEADINGS.items():
        rows = [item for item in found if item.kind == kind]
        if not rows:
            continue
        table.add_section()
        table.add_row(f"[bold cyan]{heading}[/bold cyan]")
        for item in rows:
            marks = []
            for one in item.conditions:
                if one.status == "unknown":
                    marks.append(f"? {escape(one.name)}")
                elif one.status == "not met":
                    marks.append(f"[red]✗ {escape(one.name)}[/red]: {escape(one.detail)}")
            table.add_row(
                f"[bold]{escape(item.theorem)}[/bold]\n[dim]{escape(item.formula)}[/dim]",
                number(item.facts),
                number(item.params),
                number(item.bits_per_param),
                "\n".join(marks) or "all met",
                style=None if item.applies else "dim",
            )
    return table
