from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rote.errors import AssumptionError, CapacityError, DataError, UsageError
from rote.solvers.association import associate, forward, rank_limit
from rote.solvers.target_code import circle_code, polytope_code, spread_code


def plain_logits(weights: Any, contexts: Any, dtype: str) -> Any:
    """One fact and one head at a time, with queries, keys and values per position."""
    w = weights.astype(dtype)
    out = []
    for tokens in contexts:
        x = w.W_E[tokens] + w.W_pos
        y = x[-1].copy()
        for h in range(len(w.W_Q)):
            scores = (x @ w.W_K[h].T) @ (w.W_Q[h] @ x[-1])
            a = np.exp(scores - scores.max())
            a /= a.sum()
            y += w.W_O[h] @ (a @ (x @ w.W_V[h].T))
        out.append(w.W_U @ y)
    return np.stack(out)


def facts(vocab: int, length: int, n_facts: int, seed: int, pools: list[list[int]] | None = None) -> Any:
    rng = np.random.default_rng(seed)
    pools = pools or [list(range(vocab))] * length
    most = min(math.prod(len(p) for p in pools), 10**9)
    seen: dict[tuple[int, ...], None] = {}
    while len(seen) < min(n_facts, most):
        seen[tuple(int(rng.choice(p)) for p in pools)] = None
    return np.array(list(seen))


def plain_rank(contexts: Any, vocab: int, n_heads: int, d: int, d_head: int) -> int:
    best = 0
    rng = np.random.default_rng(1)
    for scale in (3.0, 6.0, 12.0):
        x = rng.normal(size=(vocab, d))[contexts] + rng.normal(size=(contexts.shape[1], d))
        parts = [x[:, -1]]
        for _ in range(n_heads):
            scores = np.einsum("td,tsd->ts", x[:, -1] @ rng.normal(size=(d, d)), x)
            scores *= scale / max(scores.std(), 1e-9)
            a = np.exp(scores - scores.max(axis=1, keepdims=True))
            a /= a.sum(axis=1, keepdims=True)
            parts.append(np.einsum("ts,tsd->td", a, x) @ rng.normal(size=(d, d_head)))
        phi = np.concatenate(parts, axis=1)
        best = max(best, int(np.linalg.matrix_rank(phi, tol=1e-12 * np.linalg.norm(phi, 2))))
    return best


ALL = list(range(12))
RANKS: list[tuple[int, int, int, int, list[list[int]]]] = [
    (8, 8, 6, 3, [ALL] * 3),
    (8, 3, 6, 3, [ALL] * 3),
    (4, 4, 8, 2, [ALL] * 2),
    (4, 4, 3, 1, [ALL]),
    (16, 16, 5, 3, [[0, 1], ALL, ALL]),
    (16, 16, 5, 3, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),  # no token in two positions
    (16, 10, 4, 4, [[0, 1, 2, 3, 4, 5]] * 2 + [[6, 7, 8, 9, 10, 11]] * 2),
    (8, 8, 6, 4, [ALL] * 3 + [[0, 1, 2]]),
    (8, 4, 6, 4, [ALL] * 3 + [[5]]),
    (16, 16, 4, 6, [[0, 1, 2, 3]] * 6),
    (6, 6, 6, 8, [[0, 1]] * 8),
    (2, 1, 20, 2, [ALL] * 2),
]


@pytest.mark.parametrize(("d", "d_head", "n_heads", "length", "pools"), RANKS)
def test_rank_limit_is_the_numerical_rank(
    d: int, d_head: int, n_heads: int, length: int, pools: list[list[int]]
) -> None:
    contexts = facts(12, length, 3 * (n_heads * d_head + d), 0, pools)
    limit = rank_limit(contexts, 12, n_heads, d, d_head)
    assert limit.value == plain_rank(contexts, 12, n_heads, d, d_head), limit.reason
    assert limit.nominal == n_heads * d_head + d


def test_rank_limit_sees_crowded_last_tokens() -> None:
    crowded = facts(12, 4, 120, 0, [ALL] * 3 + [[0]])
    lone = np.concatenate([np.zeros((11, 3), dtype=int), np.arange(1, 12)[:, None]], axis=1)
    contexts = np.concatenate([crowded, lone])
    assert rank_limit(contexts, 12, 5, 16, 4).value == 5 * 4 + 12 == plain_rank(contexts, 12, 5, 16, 4)
    contexts = np.concatenate([crowded[:60], lone[:2]])
    assert rank_limit(contexts, 12, 2, 16, 4).value == 11 == plain_rank(contexts, 12, 2, 16, 4)


SHAPES = [  # vocab, length, d, d_head, heads, rank-1 QK
    (50, 2, 2, 2, 8, False),
    (20, 5, 2, 1, 12, False),
    (40, 3, 8, 8, 5, False),
    (40, 7, 6, 2, 9, False),
    (40, 16, 16, 16, 4, True),
    (12, 4, 16, 16, 4, False),
    (2, 9, 4, 4, 3, False),
    (30, 3, 5, 9, 4, False),
    (60, 4, 12, 12, 6, True),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_recalls_as_many_facts_as_the_limit_allows(shape: tuple[int, int, int, int, int, bool], seed: int) -> None:
    vocab, length, d, d_head, n_heads, rank_one = shape
    contexts = facts(vocab, length, n_heads * min(d, d_head) + d, seed)
    contexts = contexts[: rank_limit(contexts, vocab, n_heads, d, d_head).value]
    contexts = contexts[: rank_limit(contexts, vocab, n_heads, d, d_head).value]
    targets = np.random.default_rng(seed).integers(0, vocab, len(contexts))
    result = associate(
        contexts,
        targets,
        vocab=vocab,
        n_heads=n_heads,
        d_model=d,
        d_head=d_head,
        rank_one_qk=rank_one,
        rng=np.random.default_rng(seed),
    )
    report, weights = result.report, result.weights
    for dtype in ("float64", "float32"):
        logits = plain_logits(weights, contexts, dtype)
        assert logits.dtype == dtype
        assert (logits.argmax(axis=1) == targets).all(), (dtype, report)
    assert report.error64 < 1e-7
    assert report.best.accuracy64 == report.best.accuracy32 == 1.0
    assert weights.W_O.shape == (n_heads, d, d_head)
    n_params = sum(array.size for array in vars(weights).values())
    assert n_params == d * (length + 2 * vocab + 4 * d_head * n_heads)
    if rank_one:
        assert (weights.W_Q[:, 1:] == 0).all()
        assert (weights.W_K[:, 1:] == 0).all()
    np.testing.assert_allclose(forward(weights, contexts)[1], plain_logits(weights, contexts, "float64"), atol=1e-6)


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9])
def test_partial_loads(load: float) -> None:
    contexts = facts(40, 3, int(load * 72), 0)
    targets = np.random.default_rng(0).integers(0, 40, len(contexts))
    result = associate(contexts, targets, vocab=40, n_heads=8, d_model=8, d_head=8, rng=np.random.default_rng(0))
    assert (plain_logits(result.weights, contexts, "float32").argmax(axis=1) == targets).all()


def test_extremes() -> None:
    def build(contexts: Any, targets: Any, vocab: int, d: int = 4, n_heads: int = 3) -> None:
        result = associate(
            contexts, targets, vocab=vocab, n_heads=n_heads, d_model=d, d_head=d, rng=np.random.default_rng(0)
        )
        assert (plain_logits(result.weights, contexts, "float32").argmax(axis=1) == targets).all()

    build(np.array([[3]]), np.array([5]), 9)  # one fact
    build(np.arange(4)[:, None], np.array([1, 1, 0, 2]), 4)  # contexts of one token
    build(facts(9, 3, 16, 0), np.full(16, 7), 9)  # constant targets
    build(facts(2, 6, 12, 0), np.arange(12) % 2, 2)  # two tokens
    build(facts(9, 3, 4, 0), np.arange(4) % 2, 9, d=1)  # width one


def test_refusals() -> None:
    rng = np.random.default_rng(0)
    contexts = facts(10, 2, 40, 0)
    shape = {"vocab": 10, "n_heads": 4, "d_model": 4, "d_head": 4}
    with pytest.raises(CapacityError, match=r"holds 20 of these facts .* got 40"):
        associate(contexts, np.zeros(40, dtype=int), rng=rng, **shape)  # type: ignore[arg-type]
    again = contexts[:10].copy()
    again[7] = again[2]
    with pytest.raises(AssumptionError, match="facts 3 and 8"):
        associate(again, np.zeros(10, dtype=int), rng=rng, **shape)  # type: ignore[arg-type]
    with pytest.raises((DataError, UsageError), match=r"0\.\.9"):
        associate(contexts[:5] + 8, np.zeros(5, dtype=int), rng=rng, **shape)  # type: ignore[arg-type]
    with pytest.raises((DataError, UsageError), match="targets"):
        associate(contexts[:5], np.full(5, 10), rng=rng, **shape)  # type: ignore[arg-type]


def test_same_seed_same_weights() -> None:
    contexts = facts(20, 3, 40, 0)
    targets = np.arange(40) % 20
    one, two = (
        associate(contexts, targets, vocab=20, n_heads=4, d_model=8, d_head=8, rng=np.random.default_rng(3)).weights
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.W_E, two.W_E)
    np.testing.assert_array_equal(one.W_O, two.W_O)


def test_codes_are_far_apart() -> None:
    rng = np.random.default_rng(0)
    for code, margin in [
        (circle_code(50, rng), 0.0078),
        (polytope_code(7, 5, rng), 1 - 1e-12),
        (spread_code(200, 16, rng), 0.55),
    ]:
        cosine = code @ code.T
        np.testing.assert_allclose(np.diag(cosine), 1, atol=1e-12)
        np.fill_diagonal(cosine, -1)
        assert 1 - cosine.max() > margin
