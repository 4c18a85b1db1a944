"""Ordinary text that a graft must leave alone: a part for the fit, and a disjoint part that the fit never sees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rote.data.contents import read_plain
from rote.data.encoding import encode
from rote.errors import DataError

__all__ = ["WINDOW", "default_text", "read_text", "windows"]

WINDOW = 256


def default_text() -> list[str]:
    """The English manual pages that come with Python, one text a page."""
    from pydoc_data.topics import topics

    return [topics[name] for name in sorted(topics)]


def read_text(path: Path) -> list[str]:
    """A UTF-8 text file, cut into pieces of some paragraphs, so that both parts get some of everything."""
    text = read_plain(path)
    pieces: list[str] = [""]
    for paragraph in text.split("\n\n"):
        if len(pieces[-1]) > 8 * WINDOW:
            pieces.append("")
        pieces[-1] += paragraph + "\n\n"
    return [piece for piece in pieces if piece.strip()]


def windows(
    texts: Sequence[str], tokenizer: object, n_fit: int, n_test: int, context: int, rng: np.random.Generator
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Windows of tokens for the fit and for the test, from different texts."""
    length = min(WINDOW, context)
    parts: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] = ([], [])
    wanted = (n_fit, n_test)
    for index in rng.permutation(len(texts)):
        filled = [sum(map(len, part)) / max(1, goal) for part, goal in zip(parts, wanted, strict=True)]
        if min(filled) >= 1.0:
            break
        side = 0 if filled[0] <= filled[1] else 1
        (ids,) = encode(tokenizer, [texts[index]])
        room = max(1, wanted[side] // 8)
        for start in range(0, min(len(ids), room), length):
            window = ids[start : start + length]
            if len(window) > length // 4:
                parts[side].append(window)
    if not parts[0] or not parts[1]:
        raise DataError(
            f"the text to keep gives {sum(map(len, parts[0])):,} tokens for the fit and {sum(map(len, parts[1])):,} "
            "for the test; give a longer text, of several paragraphs."
        )
    return parts
