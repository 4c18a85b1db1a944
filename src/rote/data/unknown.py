"""Contexts that are no facts of a table: what a model that can say "unknown" is tried on.

Two kinds, kept apart because they are not equally hard: contexts drawn at random, and near misses, which are a fact
with one token changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rote.data._arrays import IntArray
from rote.data.conflicts import first_positions, row_codes
from rote.data.token_table import TokenTable
from rote.errors import UsageError

__all__ = ["UnknownContexts", "unknown_contexts"]

_ROUNDS = 16


@dataclass(frozen=True)
class UnknownContexts:
    """Token ids of contexts that are no facts, (n, S) each, distinct within their kind."""

    random: IntArray
    near: IntArray
    """Facts with one token changed."""

    def __len__(self) -> int:
        return len(self.random) + len(self.near)

    @property
    def all(self) -> IntArray:
        """Both kinds, the random ones first."""
        return np.concatenate([self.random, self.near])


def unknown_contexts(table: TokenTable, n: int, rng: np.random.Generator, *, ordered: bool = True) -> UnknownContexts:
    """Up to `n` random contexts and up to `n` near misses, none of them a context of the table.

    They are made of the tokens that stand in contexts of the table (of the whole vocabulary, where nothing is left of
    those), are padded as some fact is, and each kind has no repeats. There are fewer than `n` where so many do not
    exist, or where the facts leave so few that they are not met. With `ordered=False` a fact in another order counts as
    that fact, for models that add up tokens.
    """
    if n < 1:
        raise UsageError(f"the number of unknown contexts must be at least 1, got {n}.")
    pad = table.vocabulary.pad_id
    every = np.arange(table.vocab)
    used = np.unique(table.contexts)
    pools = [pool[pool != pad] if pad is not None else pool for pool in (used, every)]

    def drawn(count: int, pool: IntArray) -> IntArray:
        rows = pool[rng.integers(len(pool), size=(count, table.context))]
        if pad is not None:
            rows[table.contexts[rng.integers(table.n_facts, size=count)] == pad] = pad
        return rows

    def changed(count: int, pool: IntArray) -> IntArray:
        rows = table.contexts[rng.integers(table.n_facts, size=count)]
        first = 0 if pad is None else np.count_nonzero(rows == pad, axis=1)
        at = rng.integers(first, table.context, size=count)
        rows[np.arange(count), at] = pool[rng.integers(len(pool), size=count)]
        return rows

    facts = table.contexts if ordered else np.sort(table.contexts, axis=1)

    def found(draw: Callable[[int, IntArray], IntArray]) -> IntArray:
        for pool in pools:
            rows = _collected(draw, pool, facts, n, table.vocab, ordered)
            if len(rows):
                return rows
        return np.zeros((0, table.context), dtype=np.int64)

    return UnknownContexts(found(drawn), found(changed))


def _collected(
    draw: Callable[[int, IntArray], IntArray], pool: IntArray, facts: IntArray, n: int, vocab: int, ordered: bool
) -> IntArray:
    """Distinct rows that are no facts, drawn in rounds until there are `n`."""
    kept = np.zeros((0, facts.shape[1]), dtype=np.int64)
    for _ in range(_ROUNDS):
        rows = np.concatenate([kept, draw(2 * n + 64, pool)])
        compared = rows if ordered else np.sort(rows, axis=1)
        # Facts stand first, so that a row which is a fact, or repeats an earlier row, is never the first of its kind.
        places = first_positions(row_codes(np.concatenate([facts, compared]), vocab)) - len(facts)
        kept = rows[places[places >= 0]][:n]
        if len(kept) == n:
            break
    return kept
