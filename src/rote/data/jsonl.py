"""JSON Lines: one object per line; the first has all keys, and what others lack is an empty cell.

JSON: a list of objects, or one object with a row for every key; whatever one of them lacks is an empty cell.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rote.data.records import json_value
from rote.data.rows import CHUNK_ROWS, ChunkedColumns, RawRows, check_width, clean_header
from rote.errors import DataError

__all__ = ["read_json_rows", "read_jsonl"]


def _json_cell(value: object) -> str | None:
    """A JSON value as a cell; None for null. Numbers are written as Python writes them, truth values as in JSON."""
    if isinstance(value, str):
        if not value.isalnum():
            _check_unicode(value)
        return value
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    raise ValueError("a value is a list or an object, but a cell is one string or number")


def read_jsonl(data: bytes, source: str) -> RawRows:
    names: tuple[str, ...] = ()
    rows: list[tuple[object, ...]] = []
    lines: list[int] = []
    columns: ChunkedColumns | None = None
    for line, raw in enumerate(io.BytesIO(data), 1):
        text = raw.decode().strip(" \t\r\n")
        if not text:
            continue
        try:
            # Objects arrive as tuples of pairs, in the order of their keys.
            pairs = json_value(text, tuple)
            if not isinstance(pairs, tuple):
                raise ValueError("it is not an object")
            keys, values = zip(*pairs, strict=True) if pairs else ((), ())
            if columns is None:
                check_width(len(keys), source)
                names = _first_keys(keys)
                columns = ChunkedColumns(names)
            rows.append(values if keys == names else _reorder(keys, values, names))
        except ValueError as error:
            raise _refusal(source, line, text, error) from None
        lines.append(line)
        if len(rows) == CHUNK_ROWS:
            columns.add(_cells(rows, lines, names, source))
            rows.clear()
    if columns is None:
        raise DataError(f"{source} holds only blank lines; it needs at least one JSON object.")
    if rows:
        columns.add(_cells(rows, lines, names, source))
    frame = columns.frame()
    frame.columns = clean_header(names, source)
    return RawRows(frame, source, lines=np.array(lines, dtype=np.int64))


def read_json_rows(data: bytes, source: str) -> RawRows:
    """The rows of a JSON file: `[{"code": "AF", "name": "Afghanistan"}, ...]`, `{"AF": "Afghanistan", ...}` or
    `{"AF": {"name": "Afghanistan"}, ...}`; a key of the whole becomes the column `key`."""
    try:
        rows = list(_objects(json_value(data.decode(), tuple)))
        if not rows:
            raise ValueError("it is empty")
        names = _first_keys(tuple(dict.fromkeys(key for pairs in rows for key, _ in pairs)))
        check_width(len(names), source)
        values = [_reorder(tuple(key for key, _ in pairs), tuple(cell for _, cell in pairs), names) for pairs in rows]
    except ValueError as error:
        raise DataError(
            f"{source} holds no rows of facts ({error}); it needs a list of objects, or an object with a value or an "
            "object for every key."
        ) from None
    columns = ChunkedColumns(names)
    columns.add(_cells(values, range(1, len(values) + 1), names, source, "row"))
    frame = columns.frame()
    frame.columns = clean_header(names, source)
    return RawRows(frame, source)


def _objects(found: Any) -> Iterator[tuple[tuple[str, Any], ...]]:
    """Every row as pairs of a column and a value; objects come as tuples of pairs."""
    if isinstance(found, list):
        for number, one in enumerate(found, 1):
            if not isinstance(one, tuple):
                raise ValueError(f"row {number} is not an object")
            yield one
    elif isinstance(found, tuple):
        for key, value in found:
            yield (("key", key), *value) if isinstance(value, tuple) else (("key", key), ("value", value))
    else:
        raise ValueError("it is one value")


def _refusal(source: str, line: int, text: str, error: ValueError) -> DataError:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return DataError(
        f"{source}: line {line} is not a row of facts ({error}): {shown!r}; write one JSON object per line, with no "
        "other keys than the first, and strings or finite numbers as values."
    )


def _first_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    if not keys:
        raise ValueError("the object is empty")
    if len(set(keys)) < len(keys):
        raise ValueError("a key appears twice")
    for key in keys:
        _check_unicode(key)
    return keys


def _check_unicode(text: str) -> None:
    if "\0" in text:
        raise ValueError("a string holds a NUL character")


def _reorder(keys: tuple[str, ...], values: tuple[object, ...], names: tuple[str, ...]) -> tuple[object, ...]:
    """The values in the order of the first row's keys, None where one is not there."""
    cells = dict(zip(keys, values, strict=True))
    if len(cells) != len(keys):
        raise ValueError("a key appears twice")
    extra = next((name for name in cells if name not in names), None)
    if extra is not None:
        raise ValueError(f"unlike the first row it has {extra!r}")
    return tuple(cells.get(name) for name in names)


def _cells(
    rows: Sequence[tuple[object, ...]], lines: Sequence[int], names: Sequence[str], source: str, counted: str = "line"
) -> Iterator[Sequence[str | None]]:
    """The columns of a chunk as cells; `lines` ends with the lines of the chunk, or whatever is `counted`."""
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        cells: list[str | None] = []
        for line, value in zip(lines[-len(rows) :], column, strict=True):
            try:
                cells.append(_json_cell(value))
            except ValueError as error:
                raise DataError(
                    f"{source}: {counted} {line}: column {name!r} cannot be a cell ({error}); replace it by a string "
                    "or a finite number, or give every part of it a column of its own."
                ) from None
        yield cells
