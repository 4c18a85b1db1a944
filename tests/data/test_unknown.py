"""Contexts that are no facts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rote.data import FactTable, Vocabulary, bigram_facts, random_facts, random_sequences, unknown_contexts
from rote.errors import UsageError


def _rows(array: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(row) for row in array.tolist()}


def _distance(context: tuple[int, ...], facts: set[tuple[int, ...]]) -> int:
    return min(sum(a != b for a, b in zip(context, fact, strict=True)) for fact in facts)


@given(
    n_facts=st.integers(1, 60),
    context=st.integers(1, 5),
    vocab=st.integers(3, 12),
    n=st.integers(1, 40),
    seed=st.integers(0, 2**16),
)
def test_no_fact_and_no_repeat_is_among_them(n_facts: int, context: int, vocab: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = random_facts(min(n_facts, vocab**context), context, vocab, rng=rng)
    facts, found = _rows(table.contexts), unknown_contexts(table, n, rng)
    for kind in (found.random, found.near):
        assert len(_rows(kind)) == len(kind) <= n
        assert not _rows(kind) & facts
        assert kind.shape[1] == context and (kind >= 0).all() and (kind < vocab).all()
    assert all(_distance(tuple(row), facts) == 1 for row in found.near.tolist())
    assert len(found) == len(found.all) == len(found.random) + len(found.near)


def test_as_many_as_were_asked_for_where_there_is_room() -> None:
    table = random_facts(2000, 4, 30, rng=np.random.default_rng(0))
    found = unknown_contexts(table, 500, np.random.default_rng(1))
    assert (len(found.random), len(found.near)) == (500, 500)
    again = unknown_contexts(table, 500, np.random.default_rng(1))
    assert np.array_equal(found.all, again.all)


def test_the_last_context_that_is_free_is_found_and_a_full_table_has_none() -> None:
    full = bigram_facts(6, rng=np.random.default_rng(0))
    assert len(unknown_contexts(full, 10, np.random.default_rng(0))) == 0
    found = unknown_contexts(full.subset(np.arange(1, 36)), 10, np.random.default_rng(0))
    assert found.random.tolist() == found.near.tolist() == [full.contexts[0].tolist()]


def test_tokens_that_are_only_targets_come_last() -> None:
    words = Vocabulary(["a", "b", "c", "x", "y"])
    some = FactTable(np.array([[0, 1], [1, 2], [2, 0]]), np.array([3, 4, 3]), words)
    assert unknown_contexts(some, 50, np.random.default_rng(0)).all.max() == 2
    every = FactTable(np.array([[0], [1], [2]]), np.array([3, 4, 3]), words)
    found = unknown_contexts(every, 50, np.random.default_rng(0))
    assert sorted(found.random.tolist()) == sorted(found.near.tolist()) == [[3], [4]]


def test_padding_stays_where_a_fact_has_it() -> None:
    rows = [["a", "b", "c"], ["d", "e"], ["f"], ["b", "a"], ["c"]]
    table = FactTable.from_rows(rows, ["x", "y", "x", "y", "x"])
    found = unknown_contexts(table, 200, np.random.default_rng(3))
    pad = table.vocabulary.pad_id
    for kind in (found.random, found.near):
        for row in kind.tolist():
            length = 3 - row.count(pad)
            assert 1 <= length <= 3 and pad not in row[3 - length :]


def test_a_fact_in_another_order_counts_as_that_fact_where_order_is_not_seen() -> None:
    table = random_sequences(52, 3, 6, 2, rng=np.random.default_rng(0))  # of 56 bags
    bags = _rows(np.sort(table.contexts, axis=1))
    blind = unknown_contexts(table, 100, np.random.default_rng(0), ordered=False)
    assert len(blind) and not _rows(np.sort(blind.all, axis=1)) & bags
    seeing = unknown_contexts(table, 100, np.random.default_rng(0))
    assert _rows(np.sort(seeing.random, axis=1)) & bags


def test_none_are_not_asked_for() -> None:
    with pytest.raises(UsageError, match="at least 1, got 0"):
        unknown_contexts(bigram_facts(3, rng=np.random.default_rng(0)), 0, np.random.default_rng(0))
