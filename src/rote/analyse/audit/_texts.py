"""Reading a text and cutting it into windows of equal length."""

from __future__ import annotations

from pathlib import Path

from rote.errors import DataError, UsageError

__all__ = ["cut", "read_text"]


def read_text(path: Path) -> str:
    """The whole text; what is empty or not UTF-8 is refused."""
    if path.is_dir():
        raise DataError(f"{path} is a directory; name a text file inside it.")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"there is no file {path}; check the path.") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}: line {line}: byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8; save the file "
            "as UTF-8 text."
        ) from None
    if "\0" in text:
        raise DataError(f"{path} holds a NUL byte, so this is not plain text; save it as UTF-8 text.")
    if not text.strip():
        raise DataError(f"{path} is empty; give it some text, thousands of words are best.")
    return text


def cut(ids: list[int], length: int, samples: int, source: str) -> list[list[int]]:
    """`samples` different windows of `length` tokens: one after the other, then overlapping where the text is short.

    Windows with the same tokens are one example, so only the first of them is taken.
    """
    if length < 1:
        raise UsageError("a window needs at least one token of the text; choose a larger context.")
    windows: dict[tuple[int, ...], None] = {}
    stride = length
    while len(windows) < samples and stride >= 1:
        for start in range(0, len(ids) - length + 1, stride):
            windows.setdefault(tuple(ids[start : start + length]))
            if len(windows) == samples:
                break
        stride //= 2
    if len(windows) < samples:
        raise DataError(
            f"{source} has {len(ids):,} tokens, and only {len(windows):,} different windows of {length}, not "
            f"{samples:,}; give a longer text, fewer samples or a smaller context."
        )
    return [list(window) for window in windows]
