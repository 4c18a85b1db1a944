"""Empty cells: refused all at once, or settled by leaving their rows out or by a token that stands for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rote.data.reading import OnMissing, Tokens
from rote.data.rows import RawRows
from rote.errors import DataError

__all__ = ["MISSING", "MISSING_CHARACTER", "Settled", "refuse_holes", "settle"]

MISSING = "<missing>"
MISSING_CHARACTER = "∅"
"""The same where every character is a token."""


@dataclass(frozen=True)
class Settled:
    """Rows without holes in the columns in use, and how many rows had one."""

    raw: RawRows
    n_missing: int


def refuse_holes(raw: RawRows, columns: Sequence[str]) -> None:
    """Refuse empty cells of these columns: the first, and how many there are in each."""
    names = list(dict.fromkeys(columns))
    holes = {name: _holes(raw, name) for name in names}
    counts = {name: int(hole.sum()) for name, hole in holes.items() if hole.any()}
    if not counts:
        return
    at, k = min((int(holes[name].arg_max() or 0), names.index(name)) for name in counts)
    shown = f"{raw.place(at)}: column {names[k]!r} holds {_content(raw, names[k], at)}"
    total = sum(counts.values())
    more = ""
    if total > 1:
        rows = int(np.count_nonzero(np.any([holes[name].to_numpy() for name in counts], axis=0)))
        each = ", ".join(f"{count:,} in {name!r}" for name, count in counts.items())
        where = f" in {rows:,} row{'s' if rows > 1 else ''}: {each}" if len(counts) > 1 else " in this column"
        more = f" ({total:,} such cells{where})"
    raise DataError(
        f"{raw.source}: {shown}{more}; every cell in use needs a value: fill it in, settle it with on_missing 'skip', "
        f"which leaves such rows out, or 'token', which puts {MISSING} there, or choose other columns for context and "
        "target."
    )


def settle(
    raw: RawRows, context: Sequence[str], target: Sequence[str], weight: str | None, tokens: Tokens, how: OnMissing
) -> Settled:
    """The rows with no empty cell in the columns in use; what was empty is refused, left out or filled in.

    A weight has no token that could stand for it: a row without one is refused unless such rows are left out.
    """
    used = [*context, *target, *([] if weight is None else [weight])]
    if how == "error":
        refuse_holes(raw, used)
        return Settled(raw, 0)
    if how == "token" and weight is not None:
        refuse_holes(raw, [weight])
    holes = {name: _holes(raw, name) for name in dict.fromkeys(used)}
    empty = np.any([hole.to_numpy() for hole in holes.values()], axis=0)
    n_missing = int(np.count_nonzero(empty))
    if not n_missing:
        return Settled(raw, 0)
    if how == "skip":
        keep = np.flatnonzero(~empty)
        if not len(keep):
            raise DataError(
                f"{raw.source}: all {len(empty):,} rows have an empty cell in {', '.join(holes)}; no fact is left "
                "without them. Choose other columns, or on_missing 'token'."
            )
        return Settled(raw.changed(raw.frame.filter(pl.Series(~empty)), keep), n_missing)
    filled = raw.frame
    for name, hole in holes.items():
        if hole.any():
            mark = MISSING_CHARACTER if tokens == "chars" and name in context else MISSING
            filled = filled.with_columns(_filled(raw, name, hole, mark))
    return Settled(raw.changed(filled), n_missing)


def _holes(raw: RawRows, column: str) -> pl.Series:
    """Where a column has no value: nothing, white space only, or a number that is none."""
    values = raw.frame[column]
    if values.dtype.is_float():
        return (values.is_null() | values.is_nan()).fill_null(True)
    cells = raw.stripped(column)
    return (cells.is_null() | (cells == "")).fill_null(True)


def _filled(raw: RawRows, column: str, hole: pl.Series, mark: str) -> pl.Series:
    """A column with the mark in its holes; a cell that is the mark already is refused."""
    values = raw.frame[column]
    if values.dtype.is_float():
        values = values.fill_nan(None)
    cells = raw.changed(raw.frame.with_columns(values)).stripped(column)
    same = (cells == mark).fill_null(False)
    if same.any():
        raise DataError(
            f"{raw.source}: {raw.place(int(same.arg_max() or 0))}: column {column!r} holds {mark!r}, which is to stand "
            "for empty cells; rename it."
        )
    return pl.select(pl.when(hole).then(pl.lit(mark)).otherwise(cells).alias(column)).to_series()


def _content(raw: RawRows, column: str, at: int) -> str:
    content = raw.frame[column][at]
    if isinstance(content, float):
        return str(content)
    return f"only white space, {content!r}" if isinstance(content, str) and content else "nothing"
