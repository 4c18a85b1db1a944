"""Training on distributions of the authors' family: the table has the entropy asked for, and bounds the loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rote.errors import UnknownName, UsageError
from rote.lab.studies.distribution_training import power_table, run

SMALL: dict[str, Any] = {
    "n_heads": 2, "d_model": 3, "vocab": 6, "entropy": 0.9, "pairs": "even", "steps": 60, "rate": 0.01
}  # fmt: skip


@pytest.mark.parametrize("drawn", [False, True])
def test_tables_are_powers_of_uniform_draws_with_the_entropy_asked_for(drawn: bool) -> None:
    power, prior, table = power_table(6, 0.9, np.random.default_rng(0), drawn=drawn)
    assert table.shape == (36, 6)
    assert prior.sum() == pytest.approx(1)
    np.testing.assert_allclose(table.sum(axis=1), 1)
    assert -prior @ (table * np.log(table)).sum(axis=1) == pytest.approx(0.9)
    uniform = np.random.default_rng(0).random((36, 6)) ** power
    np.testing.assert_allclose(table, uniform / uniform.sum(axis=1, keepdims=True), rtol=1e-6)


def test_pairs_are_drawn_token_by_token() -> None:
    """b N + a: the first token's law times the law of the second one after it."""
    rng = np.random.default_rng(3)
    power, prior, _ = power_table(5, 0.8, np.random.default_rng(3), drawn=True)
    rng.random((25, 5))
    first, second = rng.random((1, 5))[0] ** power, rng.random((5, 5)) ** power
    first, second = first / first.sum(), second / second.sum(axis=1, keepdims=True)
    for a, b in ((0, 0), (1, 3), (4, 2)):
        assert prior[b * 5 + a] == pytest.approx(first[a] * second[a, b])


def test_training_stays_above_the_entropy_and_more_heads_bring_it_nearer() -> None:
    (few,) = run(SMALL, 0)
    (many,) = run({**SMALL, "n_heads": 12, "steps": 300}, 0)
    assert few["cross_entropy"] > many["cross_entropy"] > 0.9
    assert few["n_facts"] == 36


def test_few_pairs_that_are_likely_are_learned_better() -> None:
    (even,), (drawn,) = run(SMALL, 0), run({**SMALL, "pairs": "drawn"}, 0)
    assert 0.9 < drawn["cross_entropy"] < even["cross_entropy"]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="log 6"):
        run({**SMALL, "entropy": 2.0}, 0)
    with pytest.raises(UnknownName, match="drawn"):
        run({**SMALL, "pairs": "drawm"}, 0)
