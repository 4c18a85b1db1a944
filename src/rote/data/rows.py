"""Rows of a file as columns of strings, before anything is known about contexts and targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from rote.errors import DataError, UnknownName, UsageError

__all__ = [
    "CHUNK_ROWS",
    "MOST_COLUMNS",
    "WHITESPACE",
    "ChunkedColumns",
    "Places",
    "RawRows",
    "check_width",
    "clean_header",
]

CHUNK_ROWS = 50_000
MOST_COLUMNS = 20_000

# What str.strip() and str.split() of Python take for white space; polars has a slightly different idea of its own.
WHITESPACE = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


@dataclass(frozen=True)
class Places:
    """Where rows stand in their source: `rows` are their numbers there, from 0, or None for all in their order.

    `lines` are the lines of all rows of the source, unless they follow one another from `first_line` on.
    """

    source: str
    lines: npt.NDArray[np.int64] | None = None
    first_line: int | None = None
    rows: npt.NDArray[np.int64] | None = None

    def row(self, i: int) -> str:
        """Row `i` (0-based) in words: `row 17 (line 18)`, counted from 1, the header not being a row."""
        at = i if self.rows is None else int(self.rows[i])
        if self.lines is not None:
            return f"row {at + 1} (line {int(self.lines[at])})"
        return f"row {at + 1}" if self.first_line is None else f"row {at + 1} (line {at + self.first_line})"

    def of(self, chosen: npt.NDArray[np.int64]) -> Places:
        """The places of some of the rows, in their order; a row may be there more than once."""
        return Places(self.source, self.lines, self.first_line, chosen if self.rows is None else self.rows[chosen])


@dataclass(frozen=True)
class RawRows:
    """Columns as the file has them (null where it has no value), with the place of each row for messages."""

    frame: pl.DataFrame
    source: str
    lines: npt.NDArray[np.int64] | None = None
    first_line: int | None = None
    rows: npt.NDArray[np.int64] | None = None
    """Which rows of the source these are, by number; None for all of them."""
    _cache: dict[str, pl.Series] = field(default_factory=dict, repr=False)

    @property
    def columns(self) -> list[str]:
        return self.frame.columns

    @property
    def places(self) -> Places:
        return Places(self.source, self.lines, self.first_line, self.rows)

    def place(self, i: int) -> str:
        """Row `i` (0-based) in words."""
        return self.places.row(i)

    def changed(self, frame: pl.DataFrame, rows: npt.NDArray[np.int64] | None = None) -> RawRows:
        """Other columns, of the rows with these numbers here, or of all."""
        numbers = self.rows if rows is None else self.places.of(rows).rows
        return RawRows(frame, self.source, self.lines, self.first_line, numbers)

    def stripped(self, column: str) -> pl.Series:
        """One column without outer white space; cells may be empty."""
        return _as_strings(self.frame[column], column, self.source).str.strip_chars(WHITESPACE)

    def cells(self, column: str) -> pl.Series:
        """One column without outer white space; the first empty cell is refused."""
        if column not in self._cache:
            cells = self.stripped(column)
            empty = (cells.is_null() | (cells == "")).fill_null(True)
            n_empty = int(empty.sum())
            if n_empty:
                at = int(empty.arg_max() or 0)
                content = self.frame[column][at]
                shown = "nothing" if not content else f"only white space, {content!r}"
                more = f" ({n_empty} such cells in this column)" if n_empty > 1 else ""
                raise DataError(
                    f"{self.source}: {self.place(at)}: column {column!r} holds {shown}{more}; every cell in use needs "
                    "a value: fill it in, delete the row, or choose other columns for context and target."
                )
            nul = cells.str.contains("\0", literal=True)
            if nul.any():
                at = int(nul.arg_max() or 0)
                raise DataError(
                    f"{self.source}: {self.place(at)}: column {column!r} holds a NUL character in {cells[at]!r}; "
                    "remove it."
                )
            self._cache[column] = cells
        return self._cache[column]

    def stacked(self, columns: Sequence[str]) -> pl.Series:
        """The cells of several columns, one column after the other; the first empty cell is refused."""
        held = [self.frame.get_column(column) for column in columns]
        if all(column.dtype == pl.String for column in held):
            cells = pl.concat(held, rechunk=True).str.strip_chars(WHITESPACE)
            if not (cells.is_null() | (cells == "") | cells.str.contains("\0", literal=True)).any():
                return cells
        return pl.concat([self.cells(column) for column in columns], rechunk=True)

    def numbers(self, column: str) -> npt.NDArray[np.float64]:
        """One column of weights: finite and not negative."""
        cells = self.cells(column)
        values: npt.NDArray[np.float64] = cells.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()
        wrong = ~(np.isfinite(values) & (values >= 0))
        if wrong.any():
            at = int(np.argmax(wrong))
            raise DataError(
                f"{self.source}: {self.place(at)}: column {column!r} holds {cells[at]!r}, but a count or weight "
                "must be a finite number that is not negative; correct it, or name the target."
            )
        return values

    def some_number(self, column: str) -> bool:
        """Whether any cell of a column is a number."""
        return bool(self.stripped(column).cast(pl.Float64, strict=False).is_not_null().any())

    def check_columns(self, names: Iterable[str]) -> None:
        """Refuse names that no column has, with the nearest one."""
        known = set(self.columns)
        for name in names:
            if name not in known:
                raise UnknownName(f"column in {self.source} named", name, known)

    def roles(
        self, target: str | None, columns: Sequence[str] | None, weight: str | None
    ) -> tuple[str, tuple[str, ...]]:
        """The target and the context columns; unknown, repeated and clashing choices are refused."""
        self.check_columns(name for name in (*(columns or ()), target, weight) if name is not None)
        if weight is not None and weight in (target, *(columns or [])):
            raise UsageError(f"column {weight!r} cannot be the weight and a part of the fact at once.")
        if columns is not None:
            if not columns:
                raise UsageError("the context needs at least one column.")
            twice = next((name for name, times in Counter(columns).items() if times > 1), None)
            if twice is not None:
                raise UsageError(f"column {twice!r} is named twice in the context.")
        free = [name for name in self.columns if name != weight]
        goal = (free[-1] if free else "") if target is None else target
        chosen = tuple(name for name in free if name != goal) if columns is None else tuple(columns)
        if goal in chosen:
            raise UsageError(
                f"column {goal!r} cannot be context and target at once; leave it out of the context or name another "
                "target."
            )
        if not chosen or not goal:
            raise DataError(
                f"{self.source} has only the column {self.columns[0]!r} to make facts of"
                f"{'' if weight is None else ' besides the weight'}; a fact needs a context column and a target column"
                " (is the separator right?)."
            )
        return goal, chosen

    def key_and_properties(
        self, targets: Sequence[str], columns: Sequence[str] | None, weight: str | None
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The context columns and several target columns; all other columns are context unless it is named."""
        if not targets:
            raise UsageError("no column is named as a target; name one, or leave the choice open.")
        twice = next((name for name, times in Counter(targets).items() if times > 1), None)
        if twice is not None:
            raise UsageError(f"column {twice!r} is named twice as a target.")
        self.check_columns(targets)
        rest = [name for name in self.columns if name not in targets and name != weight]
        if columns is None and not rest:
            raise UsageError(f"all columns of {self.source} are targets; leave at least one of them for the context.")
        chosen = self.roles(targets[0], rest if columns is None else columns, weight)[1]
        both = next((name for name in targets if name in (*chosen, weight)), None)
        if both is not None:
            raise UsageError(f"column {both!r} cannot be a target and something else at once; leave it out of one.")
        return chosen, tuple(targets)

    def unpivoted(self, columns: Sequence[str], name: str, value: str) -> RawRows:
        """These columns under one another: a row for each cell, with the column's name and the cell."""
        parts = []
        for column in columns:
            cells = self.stripped(column).alias(value)
            parts.append(self.frame.drop(list(columns)).with_columns(pl.lit(column).alias(name), cells))
        rows = np.tile(np.arange(len(self.frame)), len(columns))
        return self.changed(pl.concat(parts), rows)


def clean_header(names: Sequence[str], source: str) -> list[str]:
    """Column names without outer white space; empty and repeated ones are refused."""
    check_width(len(names), source)
    stripped = [name.strip() for name in names]
    known: dict[str, int] = {}
    for number, name in enumerate(stripped, 1):
        if not name:
            raise DataError(
                f"{source}: column {number} has no name in the header; name it, or remove the column (the first line "
                "is the header: put one there if it is none)."
            )
        first = known.setdefault(name, number)
        if first != number:
            raise DataError(f"{source}: columns {first} and {number} are both named {name!r}; rename one.")
    return stripped


def check_width(n_columns: int, source: str) -> None:
    """Refuse more columns than any table needs."""
    if n_columns > MOST_COLUMNS:
        raise DataError(
            f"{source} has {n_columns:,} columns, and the limit is {MOST_COLUMNS:,}; keep fewer of them, or write a "
            "context as one column of words and read it with tokens as words."
        )


class ChunkedColumns:
    """Columns of strings, grown chunk by chunk so that few Python objects live at a time."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._parts: list[list[pl.Series]] = [[] for _ in names]

    def add(self, columns: Iterable[Sequence[str | None]]) -> None:
        for parts, values in zip(self._parts, columns, strict=True):
            parts.append(pl.Series(values, dtype=pl.String))

    def frame(self) -> pl.DataFrame:
        whole = [pl.concat(parts).alias(name) for name, parts in zip(self._names, self._parts, strict=True)]
        return pl.DataFrame(whole)


def _as_strings(column: pl.Series, name: str, source: str) -> pl.Series:
    """Numbers, dates and truth values in their canonical spelling; what is not one value is refused."""
    kind = column.dtype
    if kind == pl.String:
        return column
    if kind.is_float():
        wrong = (~column.is_finite()).fill_null(False)
        if wrong.any():
            at = int(wrong.arg_max() or 0)
            raise DataError(
                f"{source}: row {at + 1}: column {name!r} holds {column[at]}, which is not a value; "
                "replace it or delete the row."
            )
        known = column.drop_nulls().unique()
        # str() of a NumPy number is its shortest spelling at its own precision
        spelled = pl.DataFrame({"k": known, "v": [str(value) for value in known.to_numpy()]})
        joined = column.alias("k").to_frame().join(spelled, on="k", how="left", maintain_order="left")
        return joined["v"].cast(pl.String)
    if kind.is_nested() or kind in (pl.Binary, pl.Object, pl.Duration):
        raise DataError(
            f"{source}: column {name!r} is of type {kind}, but a cell must be one string, number, date or truth value; "
            "convert or drop the column."
        )
    return column.cast(pl.String)
