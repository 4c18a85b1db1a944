"""Reading facts for a verb, and what is said about the reading."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rote.cli._output import console

if TYPE_CHECKING:
    from rote.data import Choices, Table

__all__ = ["kind_for", "read"]


def read(source: str, choices: Choices, *, kind: str | None = None) -> Table:
    """A table from a file or by a shipped name; what was dropped or taken for granted is said on stderr."""
    from rote import data

    table = data.read(source, choices=choices if kind is None else dataclasses.replace(choices, kind=kind))
    reading = table.reading
    if reading is None:
        return table
    out = console(stderr=True)
    if reading.n_duplicates:
        out.print(f"{reading.n_duplicates:,} exact duplicates dropped.", markup=False)
    if reading.n_conflicts_resolved:
        kept = choices.on_conflict
        out.print(f"{reading.n_conflicts_resolved:,} contradictory facts dropped, the {kept} kept.", markup=False)
    if choices.weight is None and reading.weight is not None:
        out.print(f"column {reading.weight!r} is taken for counts.", markup=False)
    return table


def kind_for(with_: str, options: Mapping[str, Any]) -> str | None:
    """The kind of table that what was asked for takes, where it takes only one and a file could hold several."""
    from rote import constructions

    known = constructions.registry()
    able = [known[with_]] if with_ in known else [one for one in known.values() if with_ == "auto" and options]
    kinds = {kind for one in able if all(name in one.told for name in options) for kind in one.accepts}
    return kinds.pop() if len(kinds) == 1 and "facts" not in kinds else None
