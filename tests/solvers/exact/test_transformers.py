"""Whole transformers, made and stored without a table: nothing above the promised size, odd files refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from line_twin import changed, numerator_of, plain
from rote.errors import CheckpointError
from rote.models.kinds.exact_transformer import ExactModule
from rote.solvers.exact.checkpoint import read_transformer, transformer_arrays
from rote.solvers.exact.memorise import memorise_sequences
from rote.solvers.exact.storage import to_arrays
from rote.solvers.exact.transformer import ExactTransformer
from rote.theorems._kajitsuka import next_token_net

IntArray = npt.NDArray[np.int64]


def distinct_bags(t: int, n: int, vocab: int, rng: np.random.Generator) -> IntArray:
    """Up to t sequences that differ by more than order."""
    rows = rng.integers(vocab, size=(t, n))
    _, first = np.unique(np.sort(rows, axis=1), axis=0, return_index=True)
    kept: IntArray = rows[first]
    return kept


def memorised(rows: IntArray, labels: IntArray, classes: int, vocab: int, rng: np.random.Generator) -> ExactTransformer:
    return memorise_sequences(
        rows, labels, classes, vocab, tuple(range(classes)),
        precision="exact", variant="A", with_positions=False, rng=rng,
    ).transformer  # fmt: skip


def small() -> tuple[ExactTransformer, IntArray, IntArray]:
    """A network with two labels, what it reads and what it must say."""
    rng = np.random.default_rng(3)
    rows = distinct_bags(40, 3, 12, rng)
    labels = rng.integers(2, size=len(rows))
    return memorised(rows, labels, 2, 12, rng), rows, labels


def said(model: ExactTransformer, rows: IntArray) -> Any:
    return ExactModule(model)(torch.from_numpy(rows)).numpy()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 60), st.integers(1, 5), st.integers(2, 20), st.integers(1, 9), st.integers(0, 3))
def test_no_network_is_larger_than_the_bound_says(t: int, n: int, vocab: int, classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = distinct_bags(t, n, vocab, rng)
    labels = rng.integers(classes, size=len(rows))
    # Labels stand for tokens, so the vocabulary has at least as many.
    model = memorised(rows, labels, classes, max(vocab, classes), rng)
    assert (said(model, rows) == labels).all()
    worst = next_token_net(len(rows), n, vocab, max(2, classes))
    assert worst is not None
    assert model.params <= worst.weights
    assert model.total_bits <= worst.total_bits


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("precision", "x"), ("precision", None), ("labels", []), ("labels", [10**30]), ("vocab", 10**30), ("vocab", 1),
        ("positions_seen", 10**30), ("positions_seen", 7), ("context", 1.5), ("context", True), ("task", "other"),
        ("variant", ["A"]), ("digits", {"items": 1}), ("d_in", 2),
    ],
)  # fmt: skip
def test_odd_configurations_are_refused(key: str, value: object) -> None:
    model, _, _ = small()
    with pytest.raises(CheckpointError, match="build it again"):
        read_transformer({**model.to_dict(), key: value}, transformer_arrays(model))


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    model, _, _ = small()
    arrays = transformer_arrays(model)
    arrays["second.lengths"] = arrays["second.lengths"][:-1]
    with pytest.raises(CheckpointError, match="do not belong together"):
        read_transformer(model.to_dict(), arrays)


def test_changed_weights_lose_facts_or_change_nothing() -> None:
    """Whatever weight is changed, the module says what the plain evaluation says."""
    model, rows, labels = small()
    rng = np.random.default_rng(0)
    lost = 0
    for entry in rng.permutation(model.second.params)[:25]:
        second = changed(model.second, int(entry), 3 * numerator_of(model.second, int(entry)) + 1)
        other = read_transformer(model.to_dict(), {**transformer_arrays(model), **to_arrays("second", second)})
        answers = said(other, rows)
        for row in rng.integers(len(rows), size=3):
            values = [plain(model.first, [Fraction(int(t))])[0] for t in rows[row]]
            out = plain(second, [sum(values, Fraction(0)) / len(values)])[0]
            assert answers[row] == (int(out) if out.denominator == 1 and out >= 0 else -1)
        lost += int((answers != labels).any())
    assert lost > 10
