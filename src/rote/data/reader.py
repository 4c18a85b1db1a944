"""One reader for every kind of table, from a file or from shipped data by name; and the registry of the kinds.

A kind is one file in `data/kinds` that defines `table`, a subclass of `Table`. It says how strongly it claims a source
(`claims`) and makes a table of it (`of`); nothing here knows a kind.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rote.data.arguments import checked
from rote.data.reading import Choices
from rote.data.source import Source
from rote.data.table import Table
from rote.errors import UsageError
from rote.registry import Registry

__all__ = ["kind", "read", "register", "registry", "write"]

_kinds: Registry[type[Table]] = Registry(
    "table", "rote.data.kinds", [str(Path(__file__).parent / "kinds")], Table, classes=True, slot="kind"
)
kind, register = _kinds.get, _kinds.register


def registry() -> Mapping[str, type[Table]]:
    """All kinds of tables by name."""
    return _kinds.all()


@checked
def read(
    source: str | os.PathLike[str],
    *,
    kind: str | None = None,
    target: str | Sequence[str] | None = None,
    columns: str | Sequence[str] | None = None,
    tokens: str | None = None,
    on_conflict: str = "error",
    on_missing: str = "error",
    weight: str | None = None,
    name: str | None = None,
    choices: Choices | None = None,
) -> Table:
    """The table of a file, or of shipped data by name; `table.reading` says how it was read.

    What the source holds is found out unless `kind` says it: vectors by the ending .safetensors, sequences by columns
    x1, x2, ..., y1, y2, ..., distributions where contexts repeat with different targets and there is a column of
    counts, and facts otherwise. `target` and `columns` name the target and the context columns
    (the last one and all others unless given), `weight` a column of weights or counts. Several target columns are
    properties: every row is then a fact for each of them, whose context is the row's and the name of the column.
    `tokens` says what a token of a context is: a whole cell, a word of it (split at white space) or a character of it.
    Exact repeats of facts are dropped and counted. Contradictions are refused, or settled by `on_conflict`, "first" or
    "last"; empty cells are refused, or settled by `on_missing`: "skip" leaves their rows out, and "token" puts a token
    there. `choices` is all of this in one record.
    """
    said = Choices.of(
        kind=kind, target=target, columns=columns, tokens=tokens, on_conflict=on_conflict, on_missing=on_missing,
        weight=weight,
    )  # fmt: skip
    if choices is not None:
        if not isinstance(choices, Choices):
            raise UsageError(f"choices are a record of rote.data.Choices, got a {type(choices).__name__}.")
        if said != Choices():
            raise UsageError("choices say how to read already; leave the other arguments out.")
        said = choices
    origin = Source.of(source)
    chosen = _recognised(origin, said) if said.kind is None else _kinds.get(said.kind)
    return chosen.of(origin, replace(said, kind=chosen.kind), name)


def _recognised(source: Source, choices: Choices) -> type[Table]:
    """The kind that claims a source most strongly."""
    return max(registry().values(), key=lambda one: one.claims(source, choices))


def write(table: Table, path: str | os.PathLike[str]) -> Choices:
    """Write a table to a file; the choices with which `read` gives it back are returned."""
    return table.write(path)
