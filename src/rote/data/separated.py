"""CSV and TSV.

There are two roads. Files without quotes, lone carriage returns or blank cells (nearly all large ones) go through
polars, column by column. Whatever else turns up goes through the csv module of Python in strict mode, row by row in
chunks; it is also the one place that words complaints, because it knows the line. Both roads give the same cells
wherever both succeed. Blank lines are skipped.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rote.data.rows import CHUNK_ROWS, MOST_COLUMNS, ChunkedColumns, RawRows, check_width, clean_header
from rote.errors import DataError

__all__ = ["read_separated"]

_MOST_SEPARATORS = 10 * MOST_COLUMNS
"""In one line; a long text in quotes may hold some."""


def read_separated(data: bytes, source: str, separator: str) -> RawRows:
    end = min(at for at in (data.find(b"\n"), data.find(b"\r"), len(data)) if at >= 0)
    # Before the header is cut at its separators; those in quotes are few.
    check_width(data.count(separator.encode(), 0, end) + 1, source)
    _check_lines(data, source, separator.encode())
    fast = _read_plain(data, source, separator)
    return fast if fast is not None else _read_quoted(data, source, separator)


def _check_lines(data: bytes, source: str, separator: bytes) -> None:
    """Refuse a line with far more cells than there may be columns, before it is taken apart."""
    if len(data) <= _MOST_SEPARATORS:
        return
    breaks = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    starts, stops = np.concatenate([[0], breaks + 1]), np.concatenate([breaks, [len(data)]])
    for line in np.flatnonzero(stops - starts > _MOST_SEPARATORS).tolist():
        if data.count(separator, int(starts[line]), int(stops[line])) > _MOST_SEPARATORS:
            raise DataError(
                f"{source}: line {line + 1} has more than {_MOST_SEPARATORS:,} cells, and a table may have "
                f"{MOST_COLUMNS:,} columns; the file is damaged, or no table."
            )


def _read_plain(data: bytes, source: str, separator: str) -> RawRows | None:
    """The quick road; None where the file has anything that asks for a closer look."""
    if b'"' in data or data.count(b"\r") != data.count(b"\r\n"):
        return None
    end = data.find(b"\n")
    if end < 1 or not data[:end].strip():
        return None
    if data.startswith(codecs.BOM_UTF8, end + 1):
        return None  # polars would take it for a mark and drop it; here it is part of a cell
    header = data[:end].decode().split(separator)
    if not header[-1].strip():
        return None  # lines that end with a separator
    names = clean_header(header, source)
    try:
        frame = pl.read_csv(
            data[end + 1 :],
            has_header=False,
            schema={f"column_{k}": pl.String for k in range(len(names))},
            separator=separator,
            quote_char=None,
        )
    except pl.exceptions.PolarsError:
        return None
    except pl.exceptions.PanicException:
        return None
    if not len(frame):
        return None
    whole = pl.concat(frame.get_columns())
    if whole.null_count() or (whole.str.len_bytes() > csv.field_size_limit()).any():
        return None
    frame.columns = names
    return RawRows(frame, source, first_line=2)


def _read_quoted(data: bytes, source: str, separator: str) -> RawRows:
    """The careful road: any valid CSV, or the exact place of the first fault."""
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(data), "utf-8", newline=""), delimiter=separator, strict=True)
    rows = _numbered(reader, source)
    first = next(rows, None)
    if first is None:
        raise DataError(f"{source} holds only blank lines; it needs a header and at least one row.")
    # Some programs write a separator at the end of every line: columns without a name and without a cell.
    named = max((number for number, name in enumerate(first[1], 1) if name.strip()), default=len(first[1]))
    names = clean_header(first[1][:named], source)
    width, beyond = len(names), len(first[1]) - named
    columns = ChunkedColumns(names)
    lines: list[npt.NDArray[np.int64]] = []
    chunk: list[list[str]] = []
    numbers: list[int] = []

    def flush() -> None:
        columns.add(zip(*chunk, strict=True))
        lines.append(np.array(numbers, dtype=np.int64))
        chunk.clear()
        numbers.clear()

    n_rows = 0
    for line, cells_of in rows:
        n_rows, row = n_rows + 1, cells_of
        if beyond and width < len(row) <= width + beyond:
            filled = next((number for number, cell in enumerate(row[width:], width + 1) if cell.strip()), None)
            if filled is not None:
                clean_header([*names, *[""] * (filled - width)], source)
            row = row[:width]
        if len(row) != width:
            shown = separator.join(row)
            shown = shown if len(shown) <= 60 else shown[:57] + "..."
            cells = f"{len(row)} cell{'s' if len(row) != 1 else ''}"
            comment = first[1][0].lstrip().startswith("#")
            hint = "; the first line is the header, so take comments out" if comment else ""
            raise DataError(
                f"{source}: row {n_rows} (line {line}) has {cells}, but the header names {width}: "
                f"{shown!r}; quote cells that contain the separator, and give every column a cell{hint}."
            )
        chunk.append(row)
        numbers.append(line)
        if len(chunk) == CHUNK_ROWS:
            flush()
    if not n_rows:
        raise DataError(f"{source} has a header ({', '.join(names)}) but no rows; add at least one.")
    if chunk:
        flush()
    return RawRows(columns.frame(), source, lines=np.concatenate(lines))


def _numbered(reader: Any, source: str) -> Iterator[tuple[int, list[str]]]:
    """(line on which it starts, row) for every row that is not a blank line."""
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            why, remedy = str(error), "check its quotes"
            if "field limit" in why:
                why = f"a cell goes on for more than {csv.field_size_limit():,} characters"
                remedy = "close its quotes, or shorten it"
            raise DataError(
                f"{source}: the row that starts on line {line} is not valid CSV ({why}); {remedy}."
            ) from None
        if row:
            yield line, row
