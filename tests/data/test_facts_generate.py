from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from rote.data import FactTable, bigram_facts, random_facts, random_sequences, random_vectors
from rote.errors import UnknownName, UsageError


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("n_facts", "context", "vocab"), [(1, 1, 1), (64, 3, 4), (40, 3, 4), (20, 3, 4), (1000, 5, 9), (500, 90, 2)]
)
def test_random_facts(n_facts: int, context: int, vocab: int) -> None:
    table = random_facts(n_facts, context, vocab, rng=rng())
    assert (table.n_facts, table.context, table.vocab) == (n_facts, context, vocab)
    assert len({tuple(row) for row in table.contexts.tolist()}) == n_facts
    assert list(table.vocabulary) == sorted(table.vocabulary)
    assert table == random_facts(n_facts, context, vocab, rng=rng())
    if n_facts > 1:
        assert table != random_facts(n_facts, context, vocab, rng=rng(1))


@pytest.mark.parametrize("n_facts", [2, 6])  # by rejection, by permutation
def test_random_facts_choose_every_context_equally_often(n_facts: int) -> None:
    shared = rng(5)
    counts = np.zeros((3, 3))
    n_draws = 3000
    for _ in range(n_draws):
        table = random_facts(n_facts, 2, 3, rng=shared)
        np.add.at(counts, tuple(table.contexts.T), 1)
    share = n_facts / 9
    assert np.abs(counts - n_draws * share).max() < 4.5 * np.sqrt(n_draws * share * (1 - share))


def test_bigrams_are_all_pairs() -> None:
    table = bigram_facts(12, rng=rng())
    assert table.contexts.tolist() == [[a, b] for a in range(12) for b in range(12)]
    assert table.vocab == 12
    assert table.n_targets > 1
    assert table == bigram_facts(12, rng=rng())


@pytest.mark.parametrize(
    ("n_facts", "context", "vocab"), [(20, 3, 4), (12, 3, 4), (5, 3, 4), (101, 100, 2), (40, 100, 2), (1000, 6, 30)]
)
def test_sequences_differ_up_to_permutation(n_facts: int, context: int, vocab: int) -> None:
    table = random_sequences(n_facts, context, vocab, 3, rng=rng())
    assert len({tuple(sorted(row)) for row in table.contexts.tolist()}) == n_facts
    assert int(table.contexts.max()) < vocab
    assert table.vocab == vocab + 3
    assert set(table.targets.tolist()) <= {vocab, vocab + 1, vocab + 2}
    assert table.vocabulary.token(vocab) == "y0"
    assert table == random_sequences(n_facts, context, vocab, 3, rng=rng())


def test_sequences_choose_every_bag_equally_often() -> None:
    shared = rng(7)
    counts: dict[tuple[int, ...], int] = {}
    n_draws = 4000
    for _ in range(n_draws):
        for row in random_sequences(2, 2, 3, 2, rng=shared).contexts.tolist():
            bag = tuple(sorted(row))
            counts[bag] = counts.get(bag, 0) + 1
    share = 2 / 6
    assert len(counts) == 6
    assert max(abs(n - n_draws * share) for n in counts.values()) < 4.5 * np.sqrt(n_draws * share * (1 - share))


def test_vectors_share_what_they_should() -> None:
    own = random_vectors(6, 4, 3, rng=rng())
    assert own.contexts.shape == (6, 4, 3)
    assert not own.shared
    assert len(np.unique(own.contexts[:, 0, 0])) == 6
    half = random_vectors(6, 4, 3, sharing=0.5, rng=rng())
    assert (half.contexts[:, :2] == half.contexts[0, :2]).all()
    assert len(np.unique(half.contexts[:, 2, 0])) == 6
    one = random_vectors(6, 4, 3, sharing="shared", rng=rng())
    assert one.shared
    assert one.contexts.shape == (4, 3)
    assert one == random_vectors(6, 4, 3, sharing=1, rng=rng())
    assert own == random_vectors(6, 4, 3, sharing=0.0, rng=rng())


def test_vectors_follow_the_distribution() -> None:
    uniform = random_vectors(400, 5, 10, rng=rng())
    assert uniform.contexts.min() >= 0
    assert uniform.contexts.max() <= 1
    assert abs(uniform.contexts.mean() - 0.5) < 0.01
    assert uniform.n_classes is None
    assert uniform.targets.dtype == np.float64
    normal = random_vectors(400, 5, 10, distribution="gaussian", n_classes=7, rng=rng())
    assert abs(normal.contexts.mean()) < 0.03
    assert abs(normal.contexts.std() - 1) < 0.03
    assert set(normal.targets.tolist()) == set(range(7))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: random_facts(10, 2, 3, rng=rng()), "10 facts .* 3 tokens in 2 places make only 9"),
        (lambda: random_facts(0, 2, 3, rng=rng()), "n_facts must be a whole number of at least 1, got 0"),
        (lambda: random_facts(10**6, 10**6, 3, rng=rng()), "would not fit in memory"),
        (lambda: random_facts(1, 1, 10**9, rng=rng()), "vocab may be at most"),
        (lambda: bigram_facts(10**6, rng=rng()), "would not fit in memory"),
        (lambda: random_sequences(11, 2, 4, 2, rng=rng()), "only 10 such sequences"),
        (lambda: random_vectors(2, 2, 2, sharing=1.5, rng=rng()), "between 0 and 1"),
        (lambda: random_vectors(2, 2, 2, sharing=float("nan"), rng=rng()), "between 0 and 1"),
    ],
)
def test_impossible_wishes(call: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        call()


def test_misspelt_choices() -> None:
    with pytest.raises(UnknownName, match="did you mean 'gaussian'"):
        random_vectors(2, 2, 2, distribution="gausian", rng=rng())  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="did you mean 'shared'"):
        random_vectors(2, 2, 2, sharing="share", rng=rng())  # type: ignore[arg-type]


def test_global_random_state_is_untouched() -> None:
    before = (random.getstate(), np.random.get_state()[1].tolist())  # type: ignore[index]
    tables: list[FactTable] = [random_facts(5, 2, 9, rng=rng()), bigram_facts(3, rng=rng())]
    random_sequences(5, 3, 9, 2, rng=rng())
    random_vectors(5, 3, 2, rng=rng())
    assert tables
    after = (random.getstate(), np.random.get_state()[1].tolist())  # type: ignore[index]
    assert before == after
