"""Reading a text and cutting it into windows of equal length."""

from __future__ import annotations

from pathlib import Path

from rote.data.contents import read_plain
from rote.errors import DataError, UsageError

__all__ = ["cut", "read_text"]


def read_text(path: Path) -> str:
    """The whole text; what is empty or not UTF-8 is refused."""
    text = read_plain(path)
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
