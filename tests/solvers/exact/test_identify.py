"""Sums that tell sequences apart, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.data import random_sequences
from rote.referee.exact import Values, evaluate, whole
from rote.solvers.exact.bags import equal_bags, unequal_labels
from rote.solvers.exact.identify import distinguishing, identify
from rote.solvers.rows import closest_pair


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 80), st.integers(1, 6), st.integers(2, 12), st.integers(0, 5), st.booleans())
def test_sums_differ_and_the_network_computes_them(t: int, n: int, vocab: int, seed: int, floats: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(vocab, size=(t, n))
    _, first = np.unique(np.sort(rows, axis=1), axis=0, return_index=True)
    rows = rows[first]
    found = identify(rows, vocab, rng=rng, floats=floats)
    assert found is not None
    assert len(np.unique(found.ids)) == len(rows)
    assert int(found.ids.max()) <= found.largest
    values = whole(evaluate(found.network, [Values(np.arange(vocab))])[0])
    assert values is not None
    assert (values[rows].sum(axis=1) == found.ids).all()


@pytest.mark.parametrize(("t", "n", "vocab"), [(2000, 8, 1000), (5000, 4, 26), (3000, 32, 500)])
def test_a_hundred_weights_identify_thousands_of_sequences(t: int, n: int, vocab: int) -> None:
    rows = random_sequences(t, n, vocab, 2, rng=np.random.default_rng(1)).contexts
    found = identify(rows, vocab, rng=np.random.default_rng(2))
    assert found is not None
    assert found.network.params <= 180
    assert len(np.unique(found.ids)) == t


def test_distinguishing_tokens_split_every_pair() -> None:
    rng = np.random.default_rng(0)
    for t, n, vocab in ((300, 5, 40), (50, 20, 7), (2, 3, 4), (1, 2, 5)):
        rows = random_sequences(t, n, vocab, 2, rng=rng).contexts
        kept = distinguishing(rows)
        counts = np.stack([(rows == token).sum(axis=1) for token in kept], axis=1)
        assert len(np.unique(counts, axis=0)) == t
        assert len(kept) <= max(1, t - 1)


def test_equal_bags_are_named() -> None:
    assert equal_bags(np.array([[1, 2, 3], [1, 2, 4]])) is None
    assert equal_bags(np.array([[9, 9, 1], [1, 2, 3], [5, 5, 5], [3, 1, 2], [2, 3, 1]])) == (1, 3, 2)


def test_unequal_labels_are_named() -> None:
    assert unequal_labels(np.array([[1, 2, 1]]), np.array([[0, 1, 0]])) is None
    assert unequal_labels(np.array([[3, 4, 5], [1, 2, 1]]), np.array([[0, 1, 0], [0, 1, 2]])) == (1, 0, 2)


def test_closest_pair() -> None:
    rng = np.random.default_rng(4)
    tokens = rng.normal(size=(400, 3))
    tokens[17] = tokens[250] + 1e-5
    first, second, distance = closest_pair(tokens)
    assert (first, second) == (17, 250)
    assert distance == pytest.approx(np.sqrt(3) * 1e-5)
