from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from vector_twin import plain_predict

from rote.errors import AssumptionError, CapacityError
from rote.solvers.random_features import feature_rank_limit, random_feature_layer
from rote.solvers.vector_layer import features


def plain_rank(contexts: Any, queries: Any, n_heads: int, d_head: int, seed: int = 0) -> int:
    """The largest numerical rank of Z over a few temperatures, by SVD."""
    best = 0
    rng = np.random.default_rng(seed)
    for scale in (0.5, 1.0, 2.0, 4.0):
        W_Q, W_K = (scale * rng.normal(size=(n_heads, d_head, queries.shape[1])) / 4 for _ in range(2))
        Z = features(contexts, queries, W_Q, W_K).reshape(len(queries), -1)
        best = max(best, int(np.linalg.matrix_rank(Z, tol=1e-12 * np.linalg.norm(Z, 2))))
    return best


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    ("n_heads", "n", "d", "d_head", "shared"),
    [
        (4, 5, 8, 3, True),
        (4, 12, 6, 3, True),
        (3, 5, 8, 2, False),
        (4, 2, 6, 3, False),
        (3, 1, 6, 3, True),
        (3, 1, 6, 3, False),
    ],
)
def test_rank_limit_is_the_numerical_rank(n_heads: int, n: int, d: int, d_head: int, shared: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_examples = 2 * n_heads * d
    contexts = rng.normal(size=(n, d) if shared else (n_examples, n, d))
    queries = rng.normal(size=(n_examples, d))
    assert feature_rank_limit(contexts, queries, n_heads) == plain_rank(contexts, queries, n_heads, d_head, seed)


def test_rank_limit_between_shared_and_own() -> None:
    rng = np.random.default_rng(0)
    few = rng.normal(size=(3, 3, 12))  # three contexts of three rows: 3 * (2 * 2 + 1) examples, though H d = 24
    queries = rng.normal(size=(60, 12))
    contexts = few[np.arange(60) % 3]
    assert feature_rank_limit(contexts, queries, 2) == 15 == plain_rank(contexts, queries, 2, 4)
    flat = rng.normal(size=(60, 4, 3)) @ rng.normal(size=(3, 12))  # own contexts in a space of three dimensions
    assert feature_rank_limit(flat, queries, 2) == 6 == plain_rank(flat, queries, 2, 4)


@pytest.mark.parametrize(
    ("n_heads", "n", "d", "d_head", "shared"),
    [(4, 6, 8, 8, True), (8, 8, 16, 3, True), (5, 3, 8, 4, False), (6, 20, 8, 2, False), (3, 40, 8, 8, True)],
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_interpolates_up_to_the_limit(n_heads: int, n: int, d: int, d_head: int, shared: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    draw = rng.uniform if seed == 1 else rng.normal
    limit = min(n_heads * (n - 1) + 1, n_heads * d) if shared else n_heads * d
    contexts, queries = draw(size=(n, d) if shared else (limit, n, d)), draw(size=(limit, d))
    y = rng.normal(size=limit)
    result = random_feature_layer(contexts, queries, y, n_heads=n_heads, d_head=d_head, rng=np.random.default_rng(seed))
    assert result.report.rank == limit
    error = np.max(np.abs(plain_predict(result.weights, contexts, queries)[:, 0] - y))
    assert error < 1e-14 * result.report.cond * 100
    if result.report.cond < 1e4:
        assert np.max(np.abs(plain_predict(result.weights32, contexts, queries, "float32")[:, 0] - y)) < 0.05
    more = np.concatenate([queries, draw(size=(1, d))])
    with pytest.raises(CapacityError, match=f"at most {limit} "):
        random_feature_layer(
            contexts if shared else np.concatenate([contexts, draw(size=(1, n, d))]),
            more,
            np.zeros(limit + 1),
            n_heads=n_heads,
            d_head=d_head,
            rng=rng,
        )


def test_hostile_queries_and_contexts() -> None:
    rng = np.random.default_rng(0)
    contexts, queries, y = rng.normal(size=(20, 5, 8)), rng.normal(size=(20, 8)), rng.normal(size=20)
    queries[3] = queries[4]  # equal queries, other contexts
    queries[5] = -2 * queries[6]
    queries[7] = 0
    contexts[8, 2] = contexts[8, 1]
    contexts[9], queries[9], y[9] = contexts[10], queries[10], y[10]  # one example twice
    result = random_feature_layer(contexts, queries, y, n_heads=4, d_head=4, rng=rng)
    assert result.report.rank == 19
    np.testing.assert_allclose(plain_predict(result.weights, contexts, queries)[:, 0], y, atol=1e-9)
    y[9] += 1
    with pytest.raises(AssumptionError, match="examples 10 and 11"):
        random_feature_layer(contexts, queries, y, n_heads=4, d_head=4, rng=rng)


@pytest.mark.parametrize("n_examples", [1, 2, 17])
def test_classes_and_small_tables(n_examples: int) -> None:
    rng = np.random.default_rng(1)
    contexts, queries = rng.uniform(size=(5, 6)), rng.uniform(size=(n_examples, 6))
    labels = rng.integers(0, 9, n_examples)
    result = random_feature_layer(contexts, queries, labels, n_heads=4, d_head=4, n_classes=9, rng=rng)
    assert (plain_predict(result.weights32, contexts, queries, "float32").argmax(axis=1) == labels).all()
