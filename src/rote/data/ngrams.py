"""N-gram counts of a text: contexts of order - 1 tokens, and how often each token follows.

Characters: every run of white space is one space, written `␣`, because the cells of a file lose outer white space.
Words: what stands between white space. `plain` lower-cases the text and leaves only letters, digits, apostrophes inside
words, and (for characters) spaces.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from rote.data.contents import as_path, read_plain
from rote.data.kinds.distributions import DistributionTable
from rote.data.vocabulary import PAD, Vocabulary
from rote.errors import DataError, UnknownName, UsageError

__all__ = ["SPACE", "NgramReport", "count_ngrams", "ngrams"]

SPACE = "␣"
CUTS = ("words", "chars")
_LONGEST = 64


@dataclass(frozen=True)
class NgramReport:
    """What was counted."""

    n_tokens: int
    n_ngrams: int
    n_dropped: int
    """N-grams with a token that was not kept."""


def ngrams(
    path: str | os.PathLike[str],
    *,
    order: int = 3,
    tokens: str = "words",
    plain: bool = False,
    most: int | None = None,
    name: str | None = None,
) -> tuple[DistributionTable, NgramReport]:
    """The n-grams of a text file (UTF-8)."""
    file = as_path(path)
    return count_ngrams(
        read_plain(file), order=order, tokens=tokens, plain=plain, most=most, name=name or file.name.split(".")[0]
    )


def count_ngrams(
    text: str,
    *,
    order: int = 3,
    tokens: str = "words",
    plain: bool = False,
    most: int | None = None,
    name: str = "text",
) -> tuple[DistributionTable, NgramReport]:
    """Contexts of `order` - 1 tokens, their frequencies, and what follows them; only of the `most` frequent tokens."""
    if not 2 <= order <= _LONGEST:
        raise UsageError(f"order must be from 2 (one token of context) to {_LONGEST}, got {order}.")
    if tokens not in CUTS:
        raise UnknownName("way of cutting a text", tokens, CUTS)
    if most is not None and most < 2:
        raise UsageError(f"at least 2 tokens must be kept, got {most}.")
    parts = _cut(text, tokens, plain)
    if len(parts) < order:
        raise DataError(
            f"the text {name!r} has {len(parts)} {tokens}, and one n-gram of order {order} needs {order}; "
            "give a longer text or a lower order."
        )
    counts = Counter(parts)
    ranked = sorted(counts, key=lambda token: (-counts[token], token))
    kept = sorted(ranked if most is None else ranked[:most])
    if len(kept) < 2:
        raise DataError(f"the text {name!r} has only one distinct token, {kept[0]!r}; a distribution needs two.")
    places = {token: i for i, token in enumerate(kept)}
    ids = np.array([places.get(token, -1) for token in parts], dtype=np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(ids, order)
    whole = windows[(windows >= 0).all(axis=1)]
    if not len(whole):
        raise DataError(
            f"no n-gram of order {order} consists of the {len(kept)} most frequent tokens only; keep more of them."
        )
    table = DistributionTable.from_counts(whole[:, :-1], whole[:, -1], Vocabulary(kept), name=name)
    return table, NgramReport(len(parts), len(whole), len(windows) - len(whole))


def _cut(text: str, tokens: str, plain: bool) -> list[str]:
    if plain:
        text = " ".join(re.findall(r"[^\W_]+(?:['’][^\W_]+)*", text.lower()))
    if tokens == "words":
        parts = text.split()
        if PAD in parts:
            raise DataError(f"the text holds the word {PAD!r}, which is reserved for padding; rename it.")
        return parts
    if SPACE in text:
        raise DataError(f"the text holds the character {SPACE!r}, which stands for a space; replace it.")
    return list(" ".join(text.split()).replace(" ", SPACE))
