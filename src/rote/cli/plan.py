"""`rote plan`: the smallest shapes that hold so many facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli import _distribution, _distribution_limits
from rote.cli._distribution import SmoothingOption, TaskOption, WeightOption
from rote.cli._output import JsonOption, console, emit_json, megabytes, number
from rote.cli._source import ConflictOption, TargetOption, TokensOption, read_data

if TYPE_CHECKING:
    from rote.capacity import PlanList
    from rote.theorems import Demand

__all__ = ["plan"]


def plan(
    source: Annotated[
        str | None, typer.Argument(metavar="[FACTS]", help="A facts file, or the name of shipped facts.")
    ] = None,
    facts: Annotated[int | None, typer.Option(help="How many facts, if there is no file.")] = None,
    vocab: Annotated[int | None, typer.Option(help="Tokens in the vocabulary, N, if there is no file.")] = None,
    context: Annotated[
        str | None, typer.Option(help="Tokens in a context, S; with FACTS: its context columns, as in COL,COL.")
    ] = None,
    d_model: Annotated[int | None, typer.Option(help="Fix the width of the residual stream.")] = None,
    heads: Annotated[int | None, typer.Option(help="Fix the number of heads.")] = None,
    max_params: Annotated[int | None, typer.Option(help="Leave out shapes with more parameters.")] = None,
    dtype: Annotated[str, typer.Option(help="float64, float32, bfloat16, float16 or exact.")] = "float32",
    tokens: TokensOption = None,
    target: TargetOption = None,
    on_conflict: ConflictOption = "error",
    task: TaskOption = "facts",
    kl: Annotated[float | None, typer.Option("--kl", help="Distribution: divergence to reach, in nats.")] = None,
    weight: WeightOption = None,
    smoothing: SmoothingOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Distribution: seed of the layers that are tried.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """How small a model will do? For every construction the smallest shape that holds the facts.

    Exit code 1 means that none fits.

    Examples:

        $ rote plan --facts 10000 --vocab 1000 --context 4

        $ rote plan countries --max-params 20000

        $ rote plan --task distribution trigrams.csv --kl 0.1
    """
    from rote import capacity
    from rote.capacity import data_demand
    from rote.config import check_dtype
    from rote.errors import UsageError
    from rote.theorems import Demand

    if _distribution.is_distribution(task):
        _distribution.refuse_options(task, facts=facts, vocab=vocab, on_conflict=on_conflict != "error")
        if source is None:
            raise UsageError("--task distribution is about a table: give a facts file with repeated contexts.")
        _distribution_limits.plan_distribution(
            source,
            kl=kl,
            d_model=d_model,
            heads=heads,
            max_params=max_params,
            dtype=dtype,
            smoothing=smoothing,
            seed=seed,
            tokens=tokens,
            target=target,
            context=context,
            weight=weight,
            as_json=as_json,
        )
        return
    _distribution.refuse_options(task, kl=kl, weight=weight, smoothing=smoothing)
    if source is not None:
        given = [name for name, value in (("facts", facts), ("vocab", vocab)) if value is not None]
        if given:
            raise UsageError(f"FACTS already says how many facts there are; leave out --{' and --'.join(given)}.")
        data, _ = read_data(source, target=target, context=context, tokens=tokens, on_conflict=on_conflict)
        demand = data_demand(data, dtype=check_dtype(dtype), d_model=d_model, n_heads=heads, max_params=max_params)
    else:
        wanted = {"facts": facts, "vocab": vocab, "context": context}
        missing = [name for name, value in wanted.items() if value is None]
        if facts is None or vocab is None or context is None:
            raise UsageError(
                f"give a facts file, or --facts, --vocab and --context; missing: --{', --'.join(missing)}."
            )
        if not context.isdecimal():
            raise UsageError(f"--context must be a whole number where no facts file is given, got {context!r}.")
        demand = Demand(facts, vocab, int(context), check_dtype(dtype), d_model, heads, max_params)
    answer = capacity.plan(demand)
    if as_json:
        emit_json([item.to_dict() for item in answer.plans])
    else:
        _show(demand, answer)
    if not answer.plans:
        if as_json:
            for refusal in answer.refused:
                console(stderr=True).print(f"{refusal.construction}: {refusal.reason}", markup=False)
        raise typer.Exit(1)


def _show(demand: Demand, answer: PlanList) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    out = console()
    of = (
        f"contexts of {demand.context} vectors"
        if demand.vectors
        else f"{demand.vocab:,} tokens, contexts of {demand.context}"
    )
    asked = f"{demand.n_facts:,} facts, {of}, {demand.dtype}"
    if not answer.plans:
        out.print(f"[bold]No construction fits[/bold] {asked}.")
    else:
        table = Table(
            title=f"Smallest shapes for {asked}",
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
        )
        table.add_column("construction", overflow="fold")
        for column in ("layers", "heads", "d_model", "d_head", "d_mlp", "params", "size", "holds"):
            table.add_column(column, justify="right", no_wrap=True)
        for item in answer.plans:
            arch = item.architecture
            table.add_row(
                f"[bold]{escape(item.construction)}[/bold]"
                + (f"\n[dim]{escape(item.note)}[/dim]" if item.note else ""),
                *(number(x) for x in (arch.n_layers, arch.n_heads, arch.d_model, arch.d_head, arch.d_mlp, item.params)),
                megabytes(item.bytes),
                number(item.facts),
            )
        out.print(table)
    for refusal in answer.refused:
        out.print(f"[dim]{escape(refusal.construction)}: {escape(refusal.reason)}.[/dim]")
