"""Variant A: the label at every key and 0 at every other integer, in as few weights as claimed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from line_twin import IntArray, changed, hard_keys, numerator_of, plain
from rote.referee.exact import Values, evaluate, labels_of, whole
from rote.solvers.exact.digits import digit_params, memorise_digits
from rote.solvers.exact.digits_fast import evaluate_digits
from rote.solvers.exact.lookup import memorise_lookup
from rote.solvers.exact.near import memorise_near
from rote.solvers.exact.network import Network


def run(network: Network, keys: IntArray) -> IntArray:
    found = whole(evaluate(network, [Values(keys)])[0])
    assert found is not None
    return found


@settings(max_examples=120, deadline=None)
@given(hard_keys(), st.sampled_from([2, 3, 10, 256, 5000]), st.booleans())
def test_labels_at_keys_and_zero_beside_them(keys: IntArray, n_labels: int, narrow: bool) -> None:
    labels = np.random.default_rng(len(keys)).integers(n_labels, size=len(keys))
    top = int(keys.max()) + 3
    made = memorise_digits(keys, labels, n_labels, top=top, narrow=narrow)
    assert (run(made.network, keys) == labels).all()
    beside = np.unique(np.concatenate([keys - 1, keys + 1, keys + 2, [0, top]]))
    beside = np.setdiff1d(beside[(beside >= 0) & (beside <= top)], keys)
    assert (run(made.network, beside) == 0).all()
    if not narrow:
        fast = evaluate_digits(made.network, made.shape, np.concatenate([keys, beside]))
        assert fast is not None
        assert (fast == np.concatenate([labels, np.zeros(len(beside), dtype=np.int64)])).all()


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("n_labels", [2, 7, 64])
def test_whole_domain(n_labels: int, narrow: bool) -> None:
    rng = np.random.default_rng(n_labels)
    keys = rng.permutation(3000)[:400]
    labels = rng.integers(n_labels, size=400)
    made = memorise_digits(keys, labels, n_labels, top=4000, narrow=narrow)
    wanted = np.zeros(4001, dtype=np.int64)
    wanted[keys] = labels
    assert (run(made.network, np.arange(4001)) == wanted).all()
    assert made.network.width <= (7 if narrow else made.n_groups + 7)


def test_the_generic_evaluator_agrees_with_plain_fractions() -> None:
    rng = np.random.default_rng(5)
    keys = np.sort(rng.permutation(500)[:30])
    made = memorise_digits(keys, rng.integers(5, size=30), 5, top=520)
    points = np.concatenate([keys, rng.integers(0, 520, size=40)])
    found = run(made.network, points)
    assert [int(plain(made.network, [Fraction(int(x))])[0]) for x in points] == found.tolist()
    # With a common denominator: the same numbers, written as means of three.
    thirds = whole(evaluate(made.network, [Values(points * 3, 0, 3)])[0])
    assert thirds is not None
    assert (thirds == found).all()


@pytest.mark.parametrize(("n", "n_labels"), [(1, 2), (2, 2), (50, 3), (700, 2), (2000, 256), (10_000, 2), (10_000, 10)])
def test_the_grouped_evaluator_agrees_and_counts_hold(n: int, n_labels: int) -> None:
    rng = np.random.default_rng(n)
    keys = np.unique(rng.integers(0, n * n + 1, size=n))
    labels = rng.integers(n_labels, size=len(keys))
    made = memorise_digits(keys, labels, n_labels)
    slow, fast = run(made.network, keys), evaluate_digits(made.network, made.shape, keys)
    assert fast is not None
    assert (slow == labels).all()
    assert (fast == labels).all()
    # The count is exact but for biases that happen to be 0, with all groups full.
    items = made.n_groups * made.shape.items
    assert digit_params(items, made.shape) - 4 <= made.network.params <= digit_params(items, made.shape)
    assert made.network.max_bits <= max(made.shape.code_bits + 1, 80)


@pytest.mark.parametrize("bits", [50, 57, 61])
@pytest.mark.parametrize("n_labels", [2, 5, 10_000])
def test_keys_and_labels_beyond_64_bits(bits: int, n_labels: int) -> None:
    rng = np.random.default_rng(bits)
    keys = np.unique(np.concatenate([rng.integers(0, 1 << bits, size=60), [0, 5, (1 << bits) - 7, (1 << bits) - 1]]))
    labels = rng.integers(n_labels, size=len(keys))
    for narrow in (False, True):
        made = memorise_digits(keys, labels, n_labels, narrow=narrow)
        assert (run(made.network, keys) == labels).all()
        if not narrow:
            fast = evaluate_digits(made.network, made.shape, keys)
            assert fast is not None
            assert (fast == labels).all()


def test_ten_thousand_keys_in_five_thousand_weights() -> None:
    rng = np.random.default_rng(11)
    keys = np.unique(rng.integers(0, 10**8, size=10_050))[:10_000]
    made = memorise_digits(keys, rng.integers(2, size=10_000), 2)
    assert made.network.params <= 5_300
    assert made.network.total_bits <= 24 * 10_000


def test_every_changed_weight_is_noticed() -> None:
    """The grouped evaluator refuses a network that is not canonical, or its answers change with the weight."""
    rng = np.random.default_rng(3)
    keys = np.sort(rng.permutation(2000)[:60])
    labels = rng.integers(4, size=60)
    made = memorise_digits(keys, labels, 4)
    for entry in rng.permutation(made.network.params)[:80]:
        other = changed(made.network, int(entry), numerator_of(made.network, int(entry)) + 1)
        fast = evaluate_digits(other, made.shape, keys)
        slow = labels_of(evaluate(other, [Values(keys)])[0])
        assert fast is None or (fast == slow).all()


@settings(max_examples=40, deadline=None)
@given(hard_keys(most=25, top=1 << 30), st.sampled_from([2, 9, 300]))
def test_real_inputs(keys: IntArray, n_labels: int) -> None:
    keys = 4 * keys + 2
    labels = np.random.default_rng(len(keys)).integers(n_labels, size=len(keys))
    network = memorise_near(keys, labels, n_labels, top=int(keys.max()) + 4)
    # In eighths: within 1/2 the label counts, from 3/2 on it does not.
    for eighths in (-4, -3, 0, 1, 4):
        assert (labels_of(evaluate(network, [Values(8 * keys + eighths, 3)])[0]) == labels).all()
    for eighths in (-16, -12, 12, 16):
        assert (labels_of(evaluate(network, [Values(8 * keys + eighths, 3)])[0]) == 0).all()


@settings(max_examples=40, deadline=None)
@given(hard_keys(most=30, top=1 << 20))
def test_lookup(keys: IntArray) -> None:
    values = np.arange(len(keys)) % 7
    network = memorise_lookup(keys, values)
    points = np.unique(np.concatenate([keys, keys + 1, np.maximum(keys - 1, 0)]))
    wanted = np.array([dict(zip(keys.tolist(), values.tolist(), strict=True)).get(int(p), 0) for p in points])
    assert (run(network, points) == wanted).all()
    assert network.params <= 6 * len(keys) + 1
