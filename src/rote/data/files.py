"""Files as rows: CSV, TSV, JSONL, JSON and Parquet, told apart by the ending of the name.

What a file has to look like, in every format:
- a header (in JSONL: the same keys in every object), with distinct, non-empty names;
- one fact per row: the last column is the target and the others are the context, unless said otherwise;
- every cell is a string, taken as it stands but for white space at its ends, which is cut off: 007 stays 007. Numbers
  in JSONL and Parquet are spelled as Python spells them; truth values are `true` and `false`;
- UTF-8, with or without a byte-order mark; any line ends; CSV quotes as usual; blank lines are skipped; a CSV file
  whose header has no comma may have semicolons or tabs instead;
- a key that an object of JSONL lacks is an empty cell;
- `<pad>` is reserved: it may stand left of the first token of a context, as in files that rote wrote.
"""

from __future__ import annotations

import gzip
import io
import os
import re
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from rote.data._atomic import write_atomically
from rote.data.contents import check_text, contents, regular
from rote.data.jsonl import read_json_rows, read_jsonl
from rote.data.parquet import read_parquet
from rote.data.rows import MOST_COLUMNS, RawRows, clean_header
from rote.data.separated import read_separated
from rote.errors import DataError

__all__ = ["FORMATS", "check_cells", "file_format", "read_raw", "read_text", "write_frame"]

FORMATS: dict[str, str] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
}
SEPARATORS = {"csv": ",", "tsv": "\t"}


def file_format(path: Path) -> tuple[str, bool]:
    """(format, compressed) by the ending of the name."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] == ".gz"
    ending = suffixes[-2] if packed and len(suffixes) > 1 else suffixes[-1] if suffixes and not packed else ""
    kind = FORMATS.get(ending)
    if kind is None or (packed and kind == "parquet"):
        raise DataError(
            f"cannot tell the format of {path.name!r} from its ending; known endings are {', '.join(FORMATS)} "
            "(the text formats also with .gz). Rename or convert the file."
        )
    return kind, packed


def read_raw(path: Path) -> RawRows:
    """All columns of a file, as strings."""
    regular(path)
    kind, packed = file_format(path)
    data, source = contents(path, packed=packed), path.name
    if not data:
        raise DataError(f"{source} is empty; it needs a header and at least one row.")
    if kind == "parquet":
        return _read_parquet(data, source)
    return read_text(data, source, kind)


def read_text(data: bytes, source: str, kind: str) -> RawRows:
    """The rows of a text file already in memory."""
    data = check_text(data, source)
    if kind == "jsonl":
        return read_jsonl(data, source)
    if kind == "json":
        return read_json_rows(data, source)
    note = _SEPARATOR_NOTE.match(data) if kind == "csv" else None
    if note is not None:
        # Blanked, not cut off, so that line numbers stay those of the file.
        return read_separated(b"\n" + data[note.end() :], source, note[1].decode())
    return read_separated(data, source, _separator(data) if kind == "csv" else SEPARATORS[kind])


_SEPARATOR_NOTE = re.compile(rb'"?sep=([,;|\t])"?\r?\n', re.IGNORECASE)
"""A first line by which spreadsheets tell each other what cuts the lines."""


def _separator(data: bytes) -> str:
    """What cuts the lines of a CSV file: a comma, unless its header has none, but semicolons or tabs."""
    header = re.split(rb"[\r\n]", data.lstrip(b"\r\n"), maxsplit=1)[0]
    others = [mark for mark in (b";", b"\t") if b"," not in header and mark in header]
    return max(others, key=header.count).decode() if others else SEPARATORS["csv"]


def _read_parquet(data: bytes, source: str) -> RawRows:
    frame = read_parquet(data, source, MOST_COLUMNS)
    names = clean_header(frame.columns, source)
    if not len(frame) or not names:
        raise DataError(f"{source} has {len(names)} columns but no rows; it needs at least one row.")
    frame.columns = names
    return RawRows(frame, source)


def check_cells(tokens: Iterable[str]) -> None:
    """Refuse tokens that reading would change."""
    for token in tokens:
        if token != token.strip() or "\0" in token:
            raise DataError(
                f"token {token!r} cannot be stored as a cell: reading cuts white space off, and refuses NUL "
                "characters. Rename it, or store the cells before they are cut into characters."
            )


def write_frame(frame: pl.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write columns in the format of the name's ending, whole or not at all."""
    file = Path(path)
    kind, packed = file_format(file)

    def write(part: Path) -> None:
        data = _as_bytes(frame, kind)
        part.write_bytes(gzip.compress(data, mtime=0) if packed else data)

    write_atomically(file, write)


def _as_bytes(frame: pl.DataFrame, kind: str) -> bytes:
    if kind == "jsonl":
        return frame.write_ndjson().encode()
    if kind == "json":
        return frame.write_json().encode()
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
