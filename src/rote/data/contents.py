"""The bytes and the text of files that somebody hands in: regular files only, and never more than a limit.

A device, a pipe or a socket may go on for ever or never answer, and a packed file may unpack to more than any memory
holds. So what is no file is refused before it is opened, and bytes are counted while they come.
"""

from __future__ import annotations

import codecs
import gzip
import os
import stat
import zlib
from pathlib import Path

from rote.errors import DataError, RoteError, UsageError

__all__ = ["MOST_BYTES", "as_path", "check_text", "contents", "in_words", "read_plain", "regular"]

MOST_BYTES = 1 << 29
"""The largest table or text that is read, after unpacking."""

_CHUNK_BYTES = 1 << 20


def as_path(given: object, what: str = "a file") -> Path:
    """What a caller gave as the name of a file; anything that is no name is refused."""
    if isinstance(given, (str, os.PathLike)):
        name = os.fspath(given)
        if isinstance(name, str):
            return Path(name)
    raise UsageError(f"{what} is named by a text or a Path, got a {type(given).__name__}.")


def in_words(n_bytes: int) -> str:
    """A limit for people: `512 MB`."""
    return f"{n_bytes >> 20:,} MB" if n_bytes >= 1 << 20 else f"{n_bytes:,} bytes"


def regular(path: Path, refuse: type[RoteError] = DataError) -> int:
    """The size of a file; whatever is no regular file is refused without opening it."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise refuse(f"there is no file {path}; check the path.") from None
    except (OSError, ValueError) as error:
        raise refuse(f"cannot read {str(path)[:80]!r}: {_why(error)}.") from None
    if stat.S_ISDIR(status.st_mode):
        raise refuse(f"{path} is a directory; name a file inside it.")
    if not stat.S_ISREG(status.st_mode):
        raise refuse(f"{path} is a device, a pipe or a socket; copy what it holds into a file, and name that.")
    return status.st_size


def contents(path: Path, *, most: int = MOST_BYTES, packed: bool = False, refuse: type[RoteError] = DataError) -> bytes:
    """The bytes of a file, unpacked if it is `packed` (gzip); more than `most` are refused as soon as they are seen."""
    size = regular(path, refuse)
    if size > most:
        raise refuse(f"{path} has {size:,} bytes, and the limit is {in_words(most)}; keep less in it.")
    try:
        with gzip.open(path) if packed else path.open("rb") as stream:
            data = stream.read(most + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise refuse(f"{path} ends in .gz but is not a whole gzip file ({error}); compress it again.") from None
    except OSError as error:
        raise refuse(f"cannot read {path}: {_why(error)}.") from None
    if len(data) > most:
        grown = f"unpacks to more than {in_words(most)}" if packed else f"goes on after {in_words(most)}"
        raise refuse(f"{path} {grown}, which is the limit; keep less in it.")
    return data


def read_plain(path: Path, *, most: int = MOST_BYTES, refuse: type[RoteError] = DataError) -> str:
    """The text of a UTF-8 file, without a byte-order mark."""
    return check_text(contents(path, most=most, refuse=refuse), str(path), refuse).decode()


def check_text(data: bytes, source: str, refuse: type[RoteError] = DataError) -> bytes:
    """The bytes without a byte-order mark; refuses what is not UTF-8 text. Decodes piece by piece to spare memory."""
    remedy = "save the file as UTF-8 text"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise refuse(f"{source} is UTF-16, as spreadsheets write Unicode text; {remedy} (CSV UTF-8).")
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(data), _CHUNK_BYTES):
        piece = data[start : start + _CHUNK_BYTES]
        held = len(decoder.getstate()[0])
        try:
            decoder.decode(piece, final=start + len(piece) == len(data))
        except UnicodeDecodeError as error:
            at = start - held + error.start
            line = data.count(b"\n", 0, at) + 1
            raise refuse(
                f"{source}: line {line}: byte 0x{data[at]:02x} at offset {at} is not UTF-8; {remedy}."
            ) from None
    at = data.find(b"\0")
    if at >= 0:
        line = data.count(b"\n", 0, at) + 1
        raise refuse(f"{source}: line {line}: NUL byte at offset {at}, so this is not plain text; {remedy}.")
    return data.removeprefix(codecs.BOM_UTF8)


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
