"""What the columns of a file are to facts: contexts, targets, properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from rote.data.holes import refuse_holes
from rote.data.reading import Choices
from rote.data.rows import RawRows

__all__ = ["Roles"]


@dataclass(frozen=True)
class Roles:
    """What the columns of a file are to facts, and the rows as they are read.

    Several target columns are properties: every row becomes a fact for each of them, with the name of the column as the
    last token of the context.
    """

    raw: RawRows
    columns: tuple[str, ...]
    """Of the context, the column of properties included."""
    target: str
    whole: tuple[str, ...]
    """Context columns whose cells are one token in any case."""
    keys: tuple[str, ...]
    """The context columns of the file."""
    targets: tuple[str, ...]
    """The target columns of the file."""
    key: str | None = None
    """A context column that tells all rows apart by itself, where nobody said what the columns are."""
    unread: tuple[str, ...] = ()
    """Columns that are left out, as the key alone tells rows apart and several others are answers."""

    @classmethod
    def of(cls, raw: RawRows, choices: Choices) -> Roles:
        if choices.target is None or len(choices.target) == 1:
            target, columns = raw.roles(choices.one_target, choices.columns, choices.weight)
            key = _telling(raw, columns) if choices.target is None and choices.columns is None else None
            return cls(raw, columns, target, (), columns, (target,), key)
        keys, targets = raw.key_and_properties(choices.target, choices.columns, choices.weight)
        # Only the first column: one further on, such as a population, may tell rows apart by accident.
        key = keys[0] if choices.columns is None and _telling(raw, keys) == keys[0] else None
        unread = () if key is None else tuple(name for name in keys if name != key)
        keys = keys if key is None else (key,)
        if choices.on_missing == "error":
            # Before the columns are put under one another, so that they have their own names.
            refuse_holes(raw, [*keys, *targets])
        name, value = (_unused(word, raw.columns) for word in ("property", "value"))
        return cls(raw.unpivoted(targets, name, value), (*keys, name), value, (name,), keys, targets, key, unread)


def _telling(raw: RawRows, columns: Sequence[str]) -> str | None:
    """The first of several columns that tells all rows apart by itself."""
    if len(columns) < 2:
        return None
    alone = (name for name in columns if raw.frame[name].n_unique() == len(raw.frame))
    # A number further on, such as a population, tells rows apart by accident.
    return next((name for name in alone if name == columns[0] or not _numbers(raw, name)), None)


def _numbers(raw: RawRows, column: str) -> bool:
    """Whether every cell of a column is a number, or nothing."""
    cells = raw.stripped(column)
    return bool(cells.cast(pl.Float64, strict=False).is_not_null().sum() == (cells != "").sum())


def _unused(word: str, names: Sequence[str]) -> str:
    while word in names:
        word += "_"
    return word
