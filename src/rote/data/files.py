"""Files as rows: the format by the name's ending, decompression, and the checks that every text file has to pass."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from pathlib import Path

import polars as pl

from rote.data.jsonl import read_jsonl
from rote.data.rawrows import RawRows, clean_header
from rote.data.separated import read_separated
from rote.errors import DataError

__all__ = ["FORMATS", "SEPARATORS", "file_format", "read_raw", "read_text"]

FORMATS: dict[str, str] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
SEPARATORS = {"csv": ",", "tsv": "\t"}

_CHUNK_BYTES = 1 << 20


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
    try:
        if path.is_dir():
            raise DataError(f"{path} is a directory; name a file inside it.")
        if not path.exists():
            raise DataError(f"there is no file {path}; check the path.")
    except OSError as error:
        raise DataError(f"cannot read {str(path)[:80]}: {error.strerror or error}.") from error
    kind, packed = file_format(path)
    try:
        data = path.read_bytes()
        if packed:
            data = gzip.decompress(data)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} ends in .gz but is not a whole gzip file ({error}); compress it again.") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from error
    source = path.name
    if not data:
        raise DataError(f"{source} is empty; it needs a header and at least one row.")
    if kind == "parquet":
        return _read_parquet(data, source)
    return read_text(data, source, kind)


def read_text(data: bytes, source: str, kind: str) -> RawRows:
    """The rows of a text file already in memory."""
    data = _check_text(data, source)
    if kind == "jsonl":
        return read_jsonl(data, source)
    return read_separated(data, source, SEPARATORS[kind])


def _check_text(data: bytes, source: str) -> bytes:
    """The bytes without a byte-order mark; refuses what is not UTF-8 text. Decodes piece by piece to spare memory."""
    remedy = "save the file as UTF-8 text"
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(data), _CHUNK_BYTES):
        piece = data[start : start + _CHUNK_BYTES]
        held = len(decoder.getstate()[0])
        try:
            decoder.decode(piece, final=start + len(piece) == len(data))
        except UnicodeDecodeError as error:
            at = start - held + error.start
            line = data.count(b"\n", 0, at) + 1
            raise DataError(
                f"{source}: line {line}: byte 0x{data[at]:02x} at offset {at} is not UTF-8; {remedy}."
            ) from None
    at = data.find(b"\0")
    if at >= 0:
        line = data.count(b"\n", 0, at) + 1
        raise DataError(f"{source}: line {line}: NUL byte at offset {at}, so this is not plain text; {remedy}.")
    return data.removeprefix(codecs.BOM_UTF8)


def _read_parquet(data: bytes, source: str) -> RawRows:
    try:
        frame = pl.read_parquet(io.BytesIO(data))
    except pl.exceptions.PanicException as error:
        raise DataError(f"{source} is not a Parquet file that can be read ({error}); write it again.") from None
    except (pl.exceptions.PolarsError, OSError, ValueError, TypeError) as error:
        reason = str(error).strip().split("\n")[0]
        raise DataError(f"{source} is not a Parquet file that can be read ({reason}); write it again.") from None
    names = clean_header(frame.columns, source)
    if not len(frame) or not names:
        raise DataError(f"{source} has {len(names)} columns but no rows; it needs at least one row.")
    frame.columns = names
    return RawRows(frame, source)
