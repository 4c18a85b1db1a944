"""`rote bound`: what every theorem says about a shape."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from rote.cli._gather import construction_options, gather, source_options
from rote.cli._output import JsonOption, console, emit_json
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
    heads: Annotated[str | None, typer.Option(help="Heads in a layer, H.")] = None,
    d_model: Annotated[str | None, typer.Option(help="Width of the residual stream, d.")] = None,
    context: Annotated[str | None, typer.Option(help="Tokens in a context, S or n.")] = None,
    vocab: Annotated[str | None, typer.Option(help="Tokens in the vocabulary, N.")] = None,
    d_head: Annotated[str | None, typer.Option(help="Width of a head, d_h; d_model if not given.")] = None,
    layers: Annotated[str, typer.Option(help="Layers, L.")] = "1",
    d_mlp: Annotated[str, typer.Option(help="Width of the MLP; 0 for attention only.")] = "0",
    dtype: Annotated[str, typer.Option(help="float64, float32, bfloat16, float16 or exact.")] = "float32",
    shared_context: Annotated[bool, typer.Option("--shared-context", help="All examples have one context.")] = False,
    kruskal: Annotated[int | None, typer.Option(help="Kruskal rank Q of the queries, if known.")] = None,
    last_tokens: Annotated[int | None, typer.Option(help="Distinct last tokens L, if known.")] = None,
    facts: Annotated[int | None, typer.Option(help="Facts you have in mind, for accuracy beyond the capacity.")] = None,
    theorem: Annotated[
        list[str] | None, typer.Option("--theorem", help="Only this theorem, or the one of a file; may be repeated.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every theorem with its formula and conditions.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print rows of CSV, one for every theorem and shape.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw a grid of shapes as .svg, .png or .pdf.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of searches, where a table needs one.")] = 0,
    options: dict[str, Any],
    choices: Choices,
    as_json: JsonOption = False,
) -> None:
    """How many facts does this shape hold, according to every theorem?

    What matters comes first; --all shows every theorem. With FACTS the table gives context and vocabulary and settles
    the conditions that data can settle. Sizes may be several, as in 1..128, 8..64:8 (steps of 8) or 4,8,16: then every
    shape is asked. --theorem takes a file of your own, and the folders in ROTE_THEOREMS are read too. For a table of
    next-token distributions the answer is how close any model of a width can come to it.

    Examples:

        $ rote bound --heads 8 --d-model 64 --d-head 64 --context 32 --vocab 1000

        $ rote bound countries --heads 8 --d-model 16

        $ rote bound --heads 1..128 --d-model 64 --context 32 --vocab 1000 --csv

        $ rote bound trigrams.csv --d-model 8
    """
    from rote import capacity, grids
    from rote.config import Shape, check_dtype
    from rote.errors import UsageError

    number = check_dtype(dtype)
    given = {"heads": heads, "d_model": d_model, "d_head": d_head, "context": context, "vocab": vocab}
    sizes = {name: None if text is None else _sizes(name, text) for name, text in given.items()}
    sizes |= {"layers": _sizes("layers", layers), "d_mlp": _sizes("d_mlp", d_mlp)}
    table = None
    if source is not None:
        said = [name for name in ("context", "vocab") if sizes[name] is not None]
        if said:
            raise UsageError(f"FACTS already says that; leave out --{' and --'.join(said)} (columns are --columns).")
        table = read(source, choices, kind=kind_for("auto", options))
        with display(table.n_facts, enabled=not as_json) as progress:
            shape = Shape(*(_one(sizes[name]) for name in ("heads", "d_model", "d_head")))
            limits = capacity.limits(table, shape, options, rng=seed, progress=progress)
        if limits is not None:
            emit_json(limits.to_dict()) if as_json else show(limits.sheet())
            return
        demand = table.demand(number, Shape(d_model=_one(sizes["d_model"])))
        sizes |= {"context": [demand.context], "vocab": [demand.vocab]}
        if demand.d_model is not None:
            sizes["d_model"] = sizes["d_model"] or [demand.d_model]
    if options:
        raise UsageError(f"--{', --'.join(options)} is for tables that it concerns; give FACTS, or leave it out.")
    missing = [name.replace("_", "-") for name in ("heads", "d_model", "context", "vocab") if sizes[name] is None]
    if missing:
        needs = "--heads, --d-model, --context and --vocab" if source is None else "--heads and --d-model"
        small = "" if source is None else f" (rote plan {source} finds the smallest that hold it)"
        raise UsageError(f"a shape needs {needs}; missing: --{', --'.join(missing)}{small}.")
    setting = {
        "dtype": number,
        "shared_context": shared_context,
        "kruskal": kruskal,
        "distinct_last": last_tokens,
        "n_facts": facts,
    }
    named = {_FIELDS.get(name, name): values for name, values in sizes.items()}
    grid = grids.along(named, only=theorem or None, table=table, setting=setting)
    if plot is not None:
        grid.figure().draw(plot)
    if csv:
        typer.echo(grid.frame().write_csv(), nl=False)
    elif grid.varied:
        emit_json(grid.rows()) if as_json else show(grid.sheet())
    elif as_json:
        emit_json(grid.answers[0].to_dict()["bounds"])
    else:
        show(grid.answers[0].sheet(full=everything or None))
        if not (everything or theorem):
            console().print("--all shows every theorem, with its formula and conditions.", style="dim")
    if csv or as_json:
        for fault in dict.fromkeys(fault for answer in grid.answers for fault in answer.faults):
            console(stderr=True).print(str(fault), markup=False)


_FIELDS = {"heads": "n_heads", "layers": "n_layers"}
_MOST = 10_000


def _sizes(name: str, text: str) -> list[int]:
    """The sizes that a text names: 8, or 4,8,16, or 1..128, or 8..64:8."""
    from rote.errors import UsageError

    values: list[int] = []
    flag = f"--{name.replace('_', '-')}"
    for part in text.split(","):
        match = re.fullmatch(r"\s*(-?\d{1,15})(?:\.\.(\d{1,15})(?::(\d{1,15}))?)?\s*", part)
        first = int(match[1]) if match else 0
        last = int(match[2]) if match and match[2] else first
        step = int(match[3]) if match and match[3] else 1
        if match is None or step == 0 or last < first:
            raise UsageError(f"{flag} takes whole numbers, as in 8 or 4,8,16 or 1..128, not {text!r}.")
        if (last - first) // step >= _MOST:
            raise UsageError(f"{flag} {text} are more than {_MOST:,} sizes; name steps, as in 1..100000:1000.")
        values += range(first, last + 1, step)
    return list(dict.fromkeys(values))


def _one(values: list[int] | None) -> int | None:
    """The size, where it is one."""
    return values[0] if values is not None and len(values) == 1 else None
