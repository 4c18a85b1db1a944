"""`rote plan`: the smallest shapes that hold so many facts."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rote.cli._gather import construction_options, gather, refuse_foreign, source_options
from rote.cli._output import JsonOption, console, emit_json
from rote.cli._render import show
from rote.cli._source import read
from rote.constructions import kind_for
from rote.data.reading import Choices

__all__ = ["plan"]


@gather(choices=source_options(), options=construction_options("build"))
def plan(
    source: Annotated[
        str | None, typer.Argument(metavar="[FACTS]", help="A facts file, or the name of shipped facts.")
    ] = None,
    *,
    facts: Annotated[int | None, typer.Option(help="How many facts, if there is no file.")] = None,
    vocab: Annotated[int | None, typer.Option(help="Tokens in the vocabulary, N, if there is no file.")] = None,
    context: Annotated[int | None, typer.Option(help="Tokens in a context, S, if there is no file.")] = None,
    with_: Annotated[str, typer.Option("--with", help="Only this construction.")] = "auto",
    arch: Annotated[str | None, typer.Option(help="Only constructions of this architecture: rote or llama.")] = None,
    d_model: Annotated[int | None, typer.Option(help="Fix the width of the residual stream.")] = None,
    heads: Annotated[int | None, typer.Option(help="Fix the number of heads.")] = None,
    max_params: Annotated[int | None, typer.Option(help="Leave out shapes with more parameters.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float64, float32, bfloat16, float16 or exact; float32 if not given.")
    ] = None,
    options: dict[str, Any],
    choices: Choices,
    as_json: JsonOption = False,
) -> None:
    """How small a model will do? For every construction the smallest shape that holds the facts.

    Exit code 1 means that none fits.

    Examples:

        $ rote plan --facts 10000 --vocab 1000 --context 4

        $ rote plan countries --max-params 20000

        $ rote plan trigrams.csv --kl 0.1
    """
    from rote import plans
    from rote.config import check_dtype
    from rote.data.demand import Demand
    from rote.errors import UsageError

    number = check_dtype(dtype or "float32")
    refuse_foreign(with_, options)
    only = None if with_ == "auto" else [with_]
    counted = {"facts": facts, "vocab": vocab, "context": context}
    if source is not None:
        given = [name for name, value in counted.items() if value is not None]
        if given:
            raise UsageError(
                f"FACTS already says what there is; leave out --{' and --'.join(given)} (columns are --columns)."
            )
        table = read(source, choices, kind=kind_for(with_, options), named=with_ != "auto")
        answer = plans.plan(
            table,
            only,
            arch=arch,
            dtype=dtype,
            d_model=d_model,
            n_heads=heads,
            max_params=max_params,
            options=options,
        )
    else:
        missing = [name for name, value in counted.items() if value is None]
        if facts is None or vocab is None or context is None:
            raise UsageError(
                f"give a facts file, or --facts, --vocab and --context; missing: --{', --'.join(missing)}."
            )
        demand = Demand(facts, vocab, context, number, d_model, heads, max_params)
        answer = plans.plan(demand, only, arch=arch, options=options)
    if as_json:
        emit_json(answer.to_dict()["plans"])
    else:
        show(answer.sheet())
    if not answer.plans:
        if as_json:
            for refusal in answer.refused:
                console(stderr=True).print(f"{refusal.construction}: {refusal.reason}", markup=False)
        raise typer.Exit(1)
