"""Reading facts for a verb: the options that all verbs share, and what is said about the reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli._output import console

if TYPE_CHECKING:
    from rote.data import FactTable, SequenceTable, Tokens, VectorTable

__all__ = [
    "ConflictOption",
    "ContextOption",
    "TargetOption",
    "TargetsOption",
    "TokensOption",
    "read_any",
    "read_data",
    "read_source",
]

TokensOption = Annotated[
    str | None, typer.Option(help="What a token of FACTS is: cells (whole cells), words or chars.")
]
TargetOption = Annotated[str | None, typer.Option(help="Target column of FACTS; the last if not given.")]
TargetsOption = Annotated[
    str | None,
    typer.Option("--target", help="Target column of FACTS, or COL,COL for sequences; the last if not given."),
]
ContextOption = Annotated[
    str | None, typer.Option("--context", help="Context columns of FACTS, as in COL,COL; all others if not given.")
]
ConflictOption = Annotated[str, typer.Option(help="Contradictory facts: error, or keep the first or the last.")]


def read_source(
    source: str,
    *,
    target: str | None = None,
    context: str | None = None,
    tokens: str | None = None,
    on_conflict: str = "error",
) -> tuple[FactTable, Tokens]:
    """A facts file or shipped facts by name, and what a token is; what was dropped is said on stderr."""
    from rote.data import check_on_conflict, check_tokens, load_source

    table, report = load_source(
        source,
        target=target,
        context=_names(context),
        tokens=None if tokens is None else check_tokens(tokens),
        on_conflict=check_on_conflict(on_conflict),
    )
    out = console(stderr=True)
    if report.n_duplicates:
        out.print(f"{report.n_duplicates:,} exact duplicates dropped.", markup=False)
    if report.n_conflicts_resolved:
        out.print(f"{report.n_conflicts_resolved:,} contradictory facts dropped, the {on_conflict} kept.", markup=False)
    return table, report.tokens


def _names(columns: str | None) -> list[str] | None:
    return None if columns is None else [name.strip() for name in columns.split(",")]


def read_data(
    source: str,
    *,
    target: str | None = None,
    context: str | None = None,
    tokens: str | None = None,
    on_conflict: str = "error",
) -> tuple[FactTable | VectorTable, Tokens]:
    """Facts, or vectors from a .safetensors file; and what a token is."""
    from rote.data import VectorTable
    from rote.errors import UsageError

    if source.endswith(".safetensors"):
        if target or context or tokens not in (None, "cells"):
            raise UsageError("vectors have no columns or tokens; leave out --target, --context and --tokens.")
        return VectorTable.load(source), "cells"
    return read_source(source, target=target, context=context, tokens=tokens, on_conflict=on_conflict)


def read_any(
    source: str,
    *,
    target: str | None = None,
    context: str | None = None,
    tokens: str | None = None,
    on_conflict: str = "error",
    sequences: bool = False,
) -> tuple[FactTable | VectorTable | SequenceTable, Tokens]:
    """The same, or sequences with a label for every position."""
    from rote.data import check_tokens, read_sequences

    if not sequences or source.endswith(".safetensors"):
        return read_data(source, target=target, context=context, tokens=tokens, on_conflict=on_conflict)
    cut = check_tokens(tokens or "cells")
    return read_sequences(source, target=_names(target), context=_names(context), tokens=cut), cut
