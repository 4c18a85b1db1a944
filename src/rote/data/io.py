"""Reading and writing facts: CSV, TSV, JSONL and Parquet, told apart by the ending of the name.

What a file has to look like, in every format:
- a header (in JSONL: the same keys in every object), with distinct, non-empty names;
- one fact per row: the last column is the target and the others are the context, unless said otherwise;
- every cell is a string, taken as it stands but for white space at its ends, which is cut off: 007 stays 007. Numbers
  in JSONL and Parquet are spelled as Python spells them; truth values are `true` and `false`;
- UTF-8, with or without a byte-order mark; any line ends; CSV quotes as usual; blank lines are skipped;
- `<pad>` is reserved: it may stand left of the first token of a context, as in files written by `write_facts`.
"""

from __future__ import annotations

import dataclasses
import gzip
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rote.data._atomic import write_atomically
from rote.data.conflicts import OnConflict, check_on_conflict, resolve
from rote.data.files import SEPARATORS, file_format, read_raw
from rote.data.rawrows import RawRows
from rote.data.table import FactTable, conflict_error
from rote.data.tokenise import Tokens, check_tokens, encode
from rote.data.vocabulary import PAD
from rote.errors import DataError, UnknownName, UsageError

__all__ = ["ReadReport", "build_facts", "read_facts", "write_facts"]


@dataclass(frozen=True)
class ReadReport:
    """What reading found and did: rows, dropped duplicates, settled conflicts, and the columns used."""

    source: str
    n_rows: int
    n_duplicates: int
    n_conflicts_resolved: int
    n_padded: int
    context_columns: tuple[str, ...]
    target_column: str
    weight_column: str | None
    tokens: Tokens

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "context_columns": list(self.context_columns)}


def read_facts(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    context: Sequence[str] | None = None,
    tokens: Tokens = "cells",
    on_conflict: OnConflict = "error",
    weight: str | None = None,
    name: str | None = None,
) -> tuple[FactTable, ReadReport]:
    """Read facts from a file; see the top of this module for what a file has to look like.

    `tokens` says what a token of a context is: a whole cell, a word of it (split at white space) or a character of it;
    words and characters of several columns follow one another in column order. A target is always one whole cell.
    Exact repeats are dropped and counted; contradictions are refused, or settled by `on_conflict`.
    """
    file = Path(path)
    check_tokens(tokens)
    check_on_conflict(on_conflict)
    return build_facts(
        read_raw(file),
        target=target,
        context=context,
        tokens=tokens,
        on_conflict=on_conflict,
        weight=weight,
        name=name or file.name.split(".")[0] or file.name,
    )


def build_facts(
    raw: RawRows,
    *,
    target: str | None,
    context: Sequence[str] | None,
    tokens: Tokens,
    on_conflict: OnConflict,
    weight: str | None,
    name: str,
) -> tuple[FactTable, ReadReport]:
    """A table from columns already in memory."""
    check_tokens(tokens)
    check_on_conflict(on_conflict)
    target, context = _choose_columns(raw, target, context, weight)
    weights = None if weight is None else _weights(raw, weight)
    coded = encode(raw, context, target, tokens)
    found = resolve(coded.contexts, coded.targets, weights, len(coded.vocabulary), on_conflict)
    if found.n_conflicts and on_conflict == "error":
        words = coded.vocabulary.tokens

        def text(i: int) -> str:
            inside = ", ".join(words[k] for k in coded.contexts[i] if words[k] != PAD)
            return f"({inside}) -> {words[coded.targets[i]]}"

        raise conflict_error(found.clashes, found.n_conflicts, text, lambda i: f"{raw.source} {raw.place(i)}", weights)
    rows, goals = coded.contexts, coded.targets
    if len(found.keep) < len(rows):
        rows, goals = rows[found.keep], goals[found.keep]
        weights = None if weights is None else weights[found.keep]
    table = FactTable(rows, goals, coded.vocabulary, weights, name)
    if found.n_conflicts:
        table = table._without_unused_tokens()
    report = ReadReport(
        source=raw.source,
        n_rows=len(coded.targets),
        n_duplicates=found.n_duplicates,
        n_conflicts_resolved=found.n_conflicts,
        n_padded=table.n_padded,
        context_columns=tuple(context),
        target_column=target,
        weight_column=weight,
        tokens=tokens,
    )
    return table, report


def _choose_columns(
    raw: RawRows, target: str | None, context: Sequence[str] | None, weight: str | None
) -> tuple[str, list[str]]:
    """The target and the context columns; unknown, repeated and clashing choices are refused."""
    if isinstance(context, str):
        raise UsageError(f"context must be a list of column names, got the string {context!r}.")
    for column in (*(context or ()), target, weight):
        if column is not None and column not in raw.columns:
            raise UnknownName(f"column in {raw.source} named", column, raw.columns)
    if weight is not None and weight in (target, *(context or [])):
        raise UsageError(f"column {weight!r} cannot be the weight and a part of the fact at once.")
    free = [column for column in raw.columns if column != weight]
    chosen = list(context) if context is not None else None
    if chosen is not None:
        if not chosen:
            raise UsageError("context must name at least one column.")
        if len(set(chosen)) < len(chosen):
            twice = next(column for column in chosen if chosen.count(column) > 1)
            raise UsageError(f"column {twice!r} is named twice in context.")
    if target is None:
        target = free[-1] if free else ""
    if chosen is None:
        chosen = [column for column in free if column != target]
    if target in chosen:
        raise UsageError(
            f"column {target!r} cannot be context and target at once; leave it out of context or name another target."
        )
    if not chosen or not target:
        raise DataError(
            f"{raw.source} has only the column {raw.columns[0]!r} to make facts of"
            f"{'' if weight is None else ' besides the weight'}; a fact needs a context column and a target column"
            " (is the separator right?)."
        )
    return target, chosen


def _weights(raw: RawRows, column: str) -> npt.NDArray[np.float64]:
    cells = raw.cells(column)
    numbers = cells.cast(pl.Float64, strict=False)
    values: npt.NDArray[np.float64] = numbers.fill_null(float("nan")).to_numpy()
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise DataError(
            f"{raw.source}: {raw.place(at)}: column {column!r} holds {cells[at]!r}, but a weight must be a finite "
            "number that is not negative."
        )
    return values


def write_facts(
    table: FactTable,
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
) -> None:
    """Write a table: context columns, then `weight` if there are weights, then the target; padding as `<pad>`.

    `columns` names the context columns and the target. Reading the file with tokens="cells" (and weight="weight") gives
    an equal table, up to the order of the vocabulary and tokens that no fact uses. A token that reading would
    change, because white space is at its end or it holds a NUL, is refused.
    """
    file = Path(path)
    kind, packed = file_format(file)
    names = _output_names(table, columns)
    for token in table.vocabulary:
        if token != token.strip() or "\0" in token:
            raise DataError(
                f"token {token!r} cannot be stored as a cell: reading cuts white space off, and refuses NUL "
                "characters. Rename it, or store the cells before they are cut into characters."
            )
    words = pl.Series(table.vocabulary.tokens, dtype=pl.String)
    frame = pl.DataFrame({names[k]: words.gather(table.contexts[:, k]) for k in range(table.context)})
    if table.weights is not None:
        frame = frame.with_columns(pl.Series("weight", table.weights))
    frame = frame.with_columns(words.gather(table.targets).alias(names[-1]))

    def write(part: Path) -> None:
        data = _as_bytes(frame, kind)
        part.write_bytes(gzip.compress(data, mtime=0) if packed else data)

    write_atomically(file, write)


def _output_names(table: FactTable, columns: Sequence[str] | None) -> list[str]:
    names = list(columns) if columns is not None else [*(f"c{k + 1}" for k in range(table.context)), "target"]
    if len(names) != table.context + 1:
        raise UsageError(f"columns must name {table.context} context columns and the target, got {len(names)} names.")
    taken = [*names, "weight"] if table.weights is not None else names
    if len(set(taken)) < len(taken) or any(not name or name != name.strip() or "\0" in name for name in names):
        raise UsageError(f"column names must be distinct, not empty, and not end in white space, got {taken}.")
    return names


def _as_bytes(frame: pl.DataFrame, kind: str) -> bytes:
    if kind == "jsonl":
        return frame.write_ndjson().encode()
    buffer = io.BytesIO()
    if kind == "parquet":
        frame.write_parquet(buffer)
        return buffer.getvalue()
    risky = False
    for column in frame.get_columns():
        risky = risky or any(mark in column.name for mark in '",\t\r\n')
        risky = risky or (column.dtype == pl.String and bool(column.str.contains('[",\t\r\n]').any()))
    # a byte-order mark at the very start would be taken for one, so it is quoted too
    risky = risky or frame.columns[0].startswith("\ufeff")
    frame.write_csv(buffer, separator=SEPARATORS[kind], quote_style="always" if risky else "never")
    return buffer.getvalue()
