"""Reading facts for a verb, and what is said about the reading."""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING

from rote.cli._output import console

if TYPE_CHECKING:
    from rote.data import Choices, Table

__all__ = ["read"]


def read(source: str, choices: Choices, *, kind: str | None = None, named: bool = False) -> Table:
    """A table from a file or by a shipped name; what was dropped or taken for granted is said on stderr.

    `kind` is what was asked for takes; nothing is said of it where the construction was `named`.
    """
    from rote import data

    table = data.read(source, choices=choices if kind is None else dataclasses.replace(choices, kind=kind))
    reading = table.reading
    if reading is None:
        return table
    out = console(stderr=True)
    if kind is not None and not named:
        out.print(f"{source} is read as {kind}, as the options that were given are for these.", markup=False)
    if reading.n_duplicates:
        out.print(f"{_counted(reading.n_duplicates, 'exact duplicate')} dropped.", markup=False)
    if reading.n_conflicts_resolved:
        dropped = _counted(reading.n_conflicts_resolved, "contradictory fact")
        out.print(f"{dropped} dropped, the {choices.on_conflict} kept.", markup=False)
    if reading.n_missing:
        how = "left out" if choices.on_missing == "skip" else "given a token for what is missing"
        out.print(f"{_counted(reading.n_missing, 'fact')} with an empty cell {how}.", markup=False)
    if reading.unread:
        left, every = (",".join(names) for names in (reading.unread, (*reading.columns, *reading.unread)))
        out.print(
            f"Column {reading.key!r} alone tells all rows apart, so it is the key, and {left} "
            f"{'is' if len(reading.unread) == 1 else 'are'} left out; --columns {shlex.quote(every)} takes "
            f"{'it' if len(reading.unread) == 1 else 'them'} in.",
            markup=False,
        )
    elif reading.key is not None:
        rest = [name for name in (*reading.columns, *reading.target) if name != reading.key]
        said = ",".join(rest if len(rest) <= 6 else [*rest[:3], "..."])
        out.print(
            f"Column {reading.key!r} alone tells all rows apart; for an answer in each of the others, say "
            f"--target {shlex.quote(said)}.",
            markup=False,
        )
    if choices.weight is None and reading.weight is not None:
        out.print(f"column {reading.weight!r} is taken for counts; name another --target to read facts.", markup=False)
    return table


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number > 1 else ''}"
