"""Positions that tell contexts apart."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rote.data.telling import telling_positions


@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 9), st.integers(1, 4))
def test_they_tell_apart_what_all_positions_do(seed: int, n: int, length: int, vocab: int) -> None:
    contexts = np.random.default_rng(seed).integers(0, vocab, (n, length))
    positions = telling_positions(contexts)
    assert len(set(positions.tolist())) == len(positions) <= length
    assert len(np.unique(contexts[:, positions], axis=0) if len(positions) else [0]) == len(np.unique(contexts, axis=0))


def test_few_are_enough_where_one_tells_all() -> None:
    contexts = np.stack([np.zeros(5000, dtype=np.int64), np.arange(5000) % 7, np.arange(5000)], axis=1)
    assert telling_positions(contexts).tolist() == [2]


def test_long_contexts_that_repeat_come_to_an_end() -> None:
    contexts = np.random.default_rng(0).integers(0, 3, (200, 400))
    assert len(telling_positions(np.repeat(contexts, 2, axis=0))) < 20
