"""Positions of contexts that are enough to tell them all apart."""

from __future__ import annotations

import numpy as np

from rote.data._arrays import IntArray

__all__ = ["telling_positions"]

_SAMPLE = 4096
"""Contexts that the choice of a position is made by, of those that are not told apart yet."""
_AT_ONCE = 1 << 20


def telling_positions(contexts: IntArray, *, first: int | None = None) -> IntArray:
    """Positions that tell contexts (N, S) apart as far as they differ, each the one that tells most others apart; with
    `first` in any case."""
    left = list(range(contexts.shape[1]))
    chosen: list[int] = []
    rows, groups = np.arange(len(contexts)), np.zeros(len(contexts), dtype=np.int64)
    before = 1
    # Contexts that are alone in their group are told apart for good.
    while len(rows) > 1 and left:
        some = slice(None) if len(rows) <= _SAMPLE else np.argsort(groups, kind="stable")[:_SAMPLE]
        tried = left if first is None or chosen else [first]
        best = tried[int(np.argmax(_counts(groups[some], contexts[rows[some]], tried)))]
        left.remove(best)
        chosen.append(best)
        _, ids, counts = np.unique(_pairs(groups, contexts[rows, best]), return_inverse=True, return_counts=True)
        if len(counts) == before and len(np.unique(contexts[rows], axis=0)) == before:
            break
        several = counts[ids.reshape(-1)] > 1
        rows, groups = rows[several], ids.reshape(-1)[several]
        before = int(np.count_nonzero(counts > 1))
    return np.array(chosen or [first or 0], dtype=np.int64)


def _counts(groups: IntArray, contexts: IntArray, positions: list[int]) -> IntArray:
    """How many groups there are once each of these positions has been looked at, for some of them at a time."""
    step = max(1, _AT_ONCE // len(contexts))
    counts = []
    for start in range(0, len(positions), step):
        tokens = contexts[:, positions[start : start + step]].T
        pairs = np.sort(_pairs(groups, tokens), axis=1)
        counts.append(1 + np.count_nonzero(pairs[:, 1:] != pairs[:, :-1], axis=1))
    return np.concatenate(counts)


def _pairs(groups: IntArray, tokens: IntArray) -> IntArray:
    return np.asarray(groups * (int(tokens.max()) + 1) + tokens)
