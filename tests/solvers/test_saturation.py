from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from vector_twin import plain_attention, plain_predict

from rote.errors import AssumptionError, CapacityError, DataError, UsageError
from rote.solvers.saturation import saturation_layer


def data(seed: int, n_examples: int, n: int, d: int, *, shared: bool, uniform: bool = False) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    draw = rng.uniform if uniform else rng.normal
    size = (n, d) if shared else (n_examples, n, d)
    return draw(size=size), draw(size=(n_examples, d)), rng.normal(size=n_examples)


SHAPES = [
    (1, 4, 8, 4),
    (3, 5, 9, 3),
    (4, 4, 4, 4),
    (5, 2, 3, 6),
    (4, 6, 12, 9),
    (7, 7, 7, 2),
    (2, 3, 16, 3),
    (16, 4, 8, 4),
]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_holds_the_whole_bound_in_both_precisions(shape: tuple[int, ...], shared: bool, seed: int) -> None:
    n_heads, n, d, d_head = shape
    capacity = n_heads * (min(n, d_head) - 1) + 1
    contexts, queries, y = data(seed, capacity, n, d, shared=shared, uniform=seed == 1)
    result = saturation_layer(contexts, queries, y, n_heads=n_heads, d_head=d_head, rng=np.random.default_rng(seed))
    report = result.report
    assert report.rank == capacity
    assert np.max(np.abs(plain_predict(result.weights, contexts, queries)[:, 0] - y)) < 1e-8
    assert np.max(np.abs(plain_predict(result.weights32, contexts, queries, "float32")[:, 0] - y)) < 2e-2
    assert result.weights.W_Q.shape == result.weights.W_K.shape == (n_heads, d_head, d)
    assert result.weights.W_V.shape == (n_heads, 1, d)
    np.testing.assert_array_equal(result.weights.W_O, np.ones((n_heads, 1, 1)))


@pytest.mark.parametrize("shared", [True, False])
def test_each_head_serves_its_group_and_is_saturated_on_the_rest(shared: bool) -> None:
    contexts, queries, y = data(3, 6 * 4 + 1, 6, 10, shared=shared)
    result = saturation_layer(contexts, queries, y, n_heads=6, d_head=5, rng=np.random.default_rng(0))
    report = result.report
    assert sorted(np.concatenate([*report.groups, [report.base]]).tolist()) == list(range(25))
    assert [len(group) for group in report.groups] == [4] * 6
    peaks = plain_attention(result.weights, contexts, queries).max(axis=2)
    for head, group in enumerate(report.groups):
        outside = np.setdiff1d(np.arange(25), group)
        assert (peaks[outside, head] > 1 - 1e-6).all()
        assert (peaks[group, head] < 1 - 1e-6).all()
    np.testing.assert_array_equal(report.saturated_share, 1.0)


@pytest.mark.parametrize(("n_examples", "k"), [(1, 1), (2, 3), (7, 12), (20, 2)])
@pytest.mark.parametrize("shared", [True, False])
def test_fewer_examples_than_slots_and_many_outputs(n_examples: int, k: int, shared: bool) -> None:
    contexts, queries, _ = data(5, n_examples, 5, 8, shared=shared)
    y = np.random.default_rng(1).normal(size=(n_examples, k))
    result = saturation_layer(contexts, queries, y, n_heads=5, d_head=5, rng=np.random.default_rng(0))
    np.testing.assert_allclose(plain_predict(result.weights, contexts, queries), y, atol=1e-9)
    assert result.weights.W_V.shape[1] == min(8, k)


@pytest.mark.parametrize("shared", [True, False])
def test_classes_by_argmax(shared: bool) -> None:
    contexts, queries, _ = data(6, 29, 5, 8, shared=shared, uniform=True)
    labels = np.random.default_rng(2).integers(0, 10, 29)
    result = saturation_layer(
        contexts, queries, labels, n_heads=7, d_head=5, n_classes=10, rng=np.random.default_rng(0)
    )
    assert (plain_predict(result.weights32, contexts, queries, "float32").argmax(axis=1) == labels).all()
    assert (plain_predict(result.weights, contexts, queries).argmax(axis=1) == labels).all()


def test_constant_targets_and_one_context_row() -> None:
    contexts, queries, _ = data(7, 21, 5, 8, shared=True)
    result = saturation_layer(contexts, queries, np.ones(21), n_heads=5, d_head=5, rng=np.random.default_rng(0))
    np.testing.assert_allclose(plain_predict(result.weights, contexts, queries), 1.0, atol=1e-12)
    one = saturation_layer(contexts[:1], queries[:1], [2.5], n_heads=3, d_head=1, rng=np.random.default_rng(0))
    np.testing.assert_allclose(plain_predict(one.weights, contexts[:1], queries[:1]), 2.5)
    with pytest.raises(CapacityError):
        saturation_layer(contexts, queries[:2], [1.0, 2.0], n_heads=3, d_head=1, rng=np.random.default_rng(0))


@pytest.mark.parametrize("shared", [True, False])
def test_queries_of_limited_kruskal_rank(shared: bool) -> None:
    rng = np.random.default_rng(0)
    n_examples = 6 * (3 - 1) + 1
    contexts, _, y = data(8, n_examples, 6, 9, shared=shared)
    queries = rng.normal(size=(n_examples, 3)) @ rng.normal(size=(3, 9))
    result = saturation_layer(contexts, queries, y, n_heads=6, d_head=6, rng=np.random.default_rng(1))
    assert result.report.r == 3
    np.testing.assert_allclose(plain_predict(result.weights, contexts, queries)[:, 0], y, atol=1e-9)
    with pytest.raises(CapacityError, match="13 examples"):
        saturation_layer(
            contexts if shared else np.concatenate([contexts, contexts[:1]]),
            rng.normal(size=(n_examples + 1, 3)) @ rng.normal(size=(3, 9)),
            np.zeros(n_examples + 1),
            n_heads=6,
            d_head=6,
            rng=np.random.default_rng(1),
        )


def test_refuses_what_breaks_an_assumption() -> None:
    contexts, queries, y = data(9, 13, 4, 8, shared=False)

    def build(c: Any, q: Any, **more: Any) -> Any:
        return saturation_layer(c, q, y, n_heads=4, d_head=4, rng=np.random.default_rng(0), **more)

    twin = queries.copy()
    twin[7] = -3 * twin[2]
    with pytest.raises(AssumptionError, match="queries 3 and 8"):
        build(contexts, twin)
    zero = queries.copy()
    zero[5] = 0
    with pytest.raises(AssumptionError, match="query 6 is zero"):
        build(contexts, zero)
    repeated = contexts.copy()
    repeated[11, 3] = repeated[11, 0]
    with pytest.raises(AssumptionError, match="context 12"):
        build(repeated, queries)
    with pytest.raises(AssumptionError, match="rank n"):
        build(np.random.default_rng(0).normal(size=(9, 8)), queries)
    nan = queries.copy()
    nan[3, 3] = np.nan
    with pytest.raises((DataError, UsageError), match="query 3"):
        build(contexts, nan)
    planar = queries.copy()  # Kruskal rank 2, matrix rank 8: independence fails inside the construction
    planar[:6] = np.random.default_rng(1).normal(size=(6, 2)) @ queries[:2]
    try:
        result = build(contexts, planar)
    except AssumptionError:
        pass
    else:  # lucky groups can avoid the plane; then the weights must be right
        np.testing.assert_allclose(plain_predict(result.weights, contexts, planar)[:, 0], y, atol=1e-6)


def test_same_seed_same_weights_and_inputs_untouched() -> None:
    contexts, queries, y = data(10, 13, 4, 8, shared=False)
    before = [a.copy() for a in (contexts, queries, y)]
    state = np.array(np.random.get_state(legacy=False)["state"]["key"])
    one, two = (
        saturation_layer(contexts, queries, y, n_heads=4, d_head=4, rng=np.random.default_rng(5)).weights
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.W_Q, two.W_Q)
    np.testing.assert_array_equal(one.W_V, two.W_V)
    for a, b in zip(before, (contexts, queries, y), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(state, np.random.get_state(legacy=False)["state"]["key"])


@pytest.mark.parametrize("shared", [True, False])
def test_scale_of_the_data_does_not_matter(shared: bool) -> None:
    contexts, queries, y = data(11, 22, 4, 8, shared=shared)
    for factor in (1e-4, 1e4):
        result = saturation_layer(
            contexts * factor, queries / factor**2, y, n_heads=7, d_head=4, rng=np.random.default_rng(0)
        )
        np.testing.assert_allclose(
            plain_predict(result.weights, contexts * factor, queries / factor**2)[:, 0], y, atol=1e-8
        )
