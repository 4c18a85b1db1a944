"""`rote bound`: what every theorem says about a shape."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rote.cli._gather import construction_options, gather, source_options
from rote.cli._output import JsonOption, emit_json
from rote.cli._progress import display
from rote.cli._render import show
from rote.cli._source import read
from rote.constructions import kind_for
from rote.data.reading import Choices

__all__ = ["bound"]


@gather(choices=source_options(), options=construction_options("build"))
def bound(
    source: Annotated[
        str | None, typer.Argument(metavar="[FACTS]", help="A table: it gives context and vocabulary.")
    ] = None,
    *,
    heads: Annotated[int | None, typer.Option(help="Heads in a layer, H.")] = None,
    d_model: Annotated[int | None, typer.Option(help="Width of the residual stream, d.")] = None,
    context: Annotated[int | None, typer.Option(help="Tokens in a context, S or n.")] = None,
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
    seed: Annotated[int, typer.Option(min=0, help="Seed of searches, where a table needs one.")] = 0,
    options: dict[str, Any],
    choices: Choices,
    as_json: JsonOption = False,
) -> None:
    """How many facts does this shape hold, according to every theorem?

    With FACTS the table gives context, vocabulary and distinct last tokens. For a table of next-token distributions the
    answer is how close any model of a width can come to it.

    Examples:

        $ rote bound --heads 8 --d-model 64 --d-head 64 --context 32 --vocab 1000

        $ rote bound countries --heads 8 --d-model 16

        $ rote bound trigrams.csv --d-model 8
    """
    from rote import capacity
    from rote.config import Architecture, Shape, check_dtype
    from rote.errors import UsageError
    from rote.theorems import Setting

    number = check_dtype(dtype)
    known: dict[str, int | None] = {"context": context, "vocab": vocab}
    if source is not None:
        given = [name for name, value in known.items() if value is not None]
        if given:
            raise UsageError(f"FACTS already says that; leave out --{' and --'.join(given)} (columns are --columns).")
        table = read(source, choices, kind=kind_for("auto", options))
        with display(table.n_facts, enabled=not as_json) as progress:
            limits = capacity.limits(table, Shape(heads, d_model, d_head), options, rng=seed, progress=progress)
        if limits is not None:
            emit_json(limits.to_dict()) if as_json else show(limits.sheet())
            return
        demand = table.demand(number, Shape(d_model=d_model))
        known = {"context": demand.context, "vocab": demand.vocab}
        d_model, last_tokens = demand.d_model, last_tokens or demand.distinct_last
        shared_context = shared_context or demand.shared_context
    if options:
        raise UsageError(f"--{', --'.join(options)} is for tables that it concerns; give FACTS, or leave it out.")
    needed = {"heads": heads, "d-model": d_model, **known}
    missing = [name for name, value in needed.items() if value is None]
    if heads is None or d_model is None or known["context"] is None or known["vocab"] is None:
        raise UsageError(f"a shape needs --heads, --d-model, --context and --vocab; missing: --{', --'.join(missing)}.")
    arch = Architecture(
        n_heads=heads,
        d_model=d_model,
        d_head=d_model if d_head is None else d_head,
        context=known["context"],
        vocab=known["vocab"],
        n_layers=layers,
        d_mlp=d_mlp,
    )
    setting = Setting(
        arch,
        dtype=number,
        shared_context=shared_context,
        kruskal=kruskal,
        distinct_last=last_tokens,
        n_facts=facts,
    )
    answer = capacity.bounds(setting, only=theorem or None)
    emit_json(answer.to_dict()["bounds"]) if as_json else show(answer.sheet())
