"""`rote check`: do data meet the theorems' assumptions?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli._output import JsonOption, console, emit_json
from rote.cli._source import ConflictOption, ContextOption, TargetOption, TokensOption, read_source

if TYPE_CHECKING:
    from rote.assumptions import Finding
    from rote.config import Architecture

__all__ = ["check"]

_MARKS = {True: "[green]✓[/green]", False: "[red]✗[/red]", None: "?"}


def check(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FACTS|TENSORS",
            help="Facts file, shipped facts, or a .safetensors file with `queries` and `contexts`.",
        ),
    ],
    for_: Annotated[
        str | None, typer.Option("--for", metavar="THEOREM", help="Only what this theorem rests on.")
    ] = None,
    d_model: Annotated[int | None, typer.Option(min=1, help="Width that facts are held against.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed samples the same subsets.")] = 0,
    tokens: TokensOption = None,
    target: TargetOption = None,
    context: ContextOption = None,
    on_conflict: ConflictOption = "error",
    as_json: JsonOption = False,
) -> None:
    """Hold data against the assumptions of the theorems, and say which theorems may be used.

    TENSORS holds `queries` (T x d) and `contexts` (T x n x d, or n x d when shared); targets are not needed. A verdict
    is given only where it is shown. Exit code 1: an assumption of the theorem named by --for fails, or it is about
    other data.

    Examples:

        $ rote check countries

        $ rote check vectors.safetensors --for mahdavi2024_thm1 --json
    """
    from rote import assumptions, theorems
    from rote.config import Architecture
    from rote.errors import UsageError

    only = None if for_ is None else [theorems.get(for_).key]
    arch: Architecture | None = None
    if source.endswith(".safetensors"):
        if target or context or tokens not in (None, "cells") or d_model is not None:
            raise UsageError(
                "vectors have no columns or tokens, and a width of their own; leave out --target, --context, --tokens "
                "and --d-model."
            )
        vectors = assumptions.read_vectors(source)
        found = assumptions.check(vectors, only=only, rng=seed)
        title = (
            f"{vectors.name}: {vectors.n_examples:,} examples, "
            f"{'one shared context' if vectors.shared else 'contexts'} of {vectors.context} x {vectors.d_model}"
        )
    else:
        facts, _ = read_source(source, target=target, context=context, tokens=tokens, on_conflict=on_conflict)
        if d_model is not None:
            arch = Architecture(1, d_model, 1, facts.context, max(2, facts.vocab))
        found = assumptions.check(facts, arch, only=only, rng=seed)
        title = f"{facts.name}: {facts.n_facts:,} facts, contexts of {facts.context}, {facts.vocab:,} tokens"
    if as_json:
        emit_json([finding.to_dict() for finding in found])
    else:
        _show(title, found, for_)
    misses = not found and for_ in assumptions.checkable()
    if for_ is not None and (misses or any(finding.holds is False for finding in found)):
        raise typer.Exit(1)


def _show(title: str, found: list[Finding], for_: str | None) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from rote.assumptions import checkable, usable

    out = console()
    out.print(title, markup=False)
    if not found:
        other = for_ in checkable()
        out.print(
            f"{for_} speaks of other data than these: vectors, not tokens, or the reverse; it does not apply."
            if other
            else f"{for_} makes no assumption that data could break.",
            markup=False,
        )
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("", no_wrap=True)
    table.add_column("assumption", ratio=2)
    table.add_column("what was found", ratio=7)
    for finding in found:
        mark = _MARKS[finding.holds] if finding.theorems else "·"  # nothing rests on it: for information
        table.add_row(mark, escape(finding.assumption), escape(finding.explanation))
    out.print(table)
    rest = [one for one in usable(found) if for_ is None or one.theorem == for_]
    for verdict, head in ((True, "may be used"), (None, "open"), (False, "may not be used")):
        group = [one for one in rest if one.verdict is verdict]
        for one in group:
            why = f": {', '.join(one.reasons)}" if one.reasons else ""
            out.print(f"{head:<16} {one.theorem}{why}", markup=False)
    if for_ is None:
        out.print("All other theorems make no assumption that can be checked on these data.", markup=False)
