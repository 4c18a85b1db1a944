"""The best encoder is a lower bound, Theorem 2 an upper one, and the layer meets the first."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
import torch

from rote.data import DistributionTable, lookup_distributions, random_distributions
from rote.errors import AssumptionError, CapacityError, UsageError
from rote.solvers.distribution import attend, fewest_heads
from rote.solvers.encoder import EncoderBound, best_given, encoder_bound, tighten
from rote.solvers.lookup import coherence, frame, lookup_bound, welch


def _random(seed: int, contexts: int = 30, vocab: int = 7, alpha: float = 1.0) -> DistributionTable:
    return random_distributions(contexts, 2, vocab, rng=np.random.default_rng(seed), alpha=alpha, spread=1.5)


def _bound(table: DistributionTable, d: int, starts: int | None = None) -> EncoderBound:
    return encoder_bound(table, d, rng=np.random.default_rng(0), starts=starts)


def _kl(table: DistributionTable, logits: npt.NDArray[np.float64]) -> float:
    return table.kl(torch.log_softmax(torch.from_numpy(logits), dim=1).numpy())


def test_the_reported_encoder_has_the_reported_divergence() -> None:
    table = _random(0)
    for d in (1, 3):
        found = _bound(table, d, starts=4)
        assert found.W is not None and found.E is not None
        assert _kl(table, found.E @ found.W.T) == pytest.approx(found.kl, abs=1e-12)
        assert found.kl == min(found.starts) and found.spread >= 0
        assert best_given(table, found.W)[0] == pytest.approx(found.kl, abs=1e-10)


def test_wider_encoders_are_better_and_the_unigram_is_worse() -> None:
    table = _random(1)
    values = [_bound(table, d, starts=2).kl for d in range(1, 7)]
    assert all(a > b for a, b in itertools.pairwise(values))
    assert values[0] < table.uniform_kl
    assert values[-1] == 0.0


def test_no_rival_is_below_the_bound() -> None:
    """Thousands of rivals: random ones, perturbed optima, and encoders fitted from other starts by plain descent."""
    rng = np.random.default_rng(5)
    rivals = 0
    for seed in range(3):
        table = _random(seed, contexts=20, vocab=6, alpha=float(seed % 3) / 2)
        d = 1 + seed % 3
        found = _bound(table, d, starts=16)
        assert found.W is not None and found.E is not None
        for size in (1e-4, 1e-3, 1e-2, 0.1, 1.0):
            for _ in range(40):
                W = found.W + size * rng.standard_normal(found.W.shape)
                E = found.E + size * rng.standard_normal(found.E.shape)
                assert _kl(table, E @ W.T) >= found.kl - 1e-10
                rivals += 1
        pi, prior = torch.tensor(table.probabilities), torch.tensor(table.prior)
        # Thirty-two encoders at once, fitted jointly in W and E by Adam: another algorithm altogether.
        Ws = torch.tensor(rng.standard_normal((32, table.vocab, d)), requires_grad=True)
        Es = torch.tensor(rng.standard_normal((32, table.n_contexts, d)), requires_grad=True)
        optimiser = torch.optim.Adam([Ws, Es], lr=0.05)
        for _ in range(300):
            optimiser.zero_grad()
            logs = torch.log_softmax(Es @ Ws.transpose(1, 2), dim=2)
            losses = ((pi * (pi.log() - logs)).sum(dim=2) * prior).sum(dim=1)
            losses.sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            rivals += 32
            assert float(losses.detach().min()) >= found.kl - 1e-8
    assert rivals > 5000


def test_a_bound_that_was_beaten_is_tightened() -> None:
    table = _random(3)
    good = _bound(table, 2, starts=8)
    assert good.W is not None
    poor = encoder_bound(table, 2, rng=np.random.default_rng(0), starts=1, iterations=1)
    assert poor.kl > good.kl + 1e-7
    assert tighten(table, poor, good.W, rng=np.random.default_rng(1)).kl <= good.kl + 1e-9


def test_propositions_two_and_three_are_exact_zeros() -> None:
    table = _random(2)
    for d in (6, 7, 40):
        found = _bound(table, d)
        assert found.kl == 0.0 and found.exact and "Proposition 2" in found.reason
        assert found.W is not None and found.E is not None
        assert _kl(table, found.E @ found.W.T) == pytest.approx(0.0, abs=1e-12)
    one_hot = lookup_distributions(30, 2, 9, rng=np.random.default_rng(0), noise=0.0)
    assert _bound(one_hot, 2).kl == 0.0 and "Proposition 3" in _bound(one_hot, 2).reason
    with pytest.raises(AssumptionError, match="smooth"):
        _bound(one_hot, 1)
    half = _random(0).smoothed(0.0)
    zeros = DistributionTable(
        half.contexts, half.prior, np.eye(7)[np.arange(30) % 7] * 0.5 + np.eye(7)[0] * 0.5, half.vocabulary
    )
    with pytest.raises(AssumptionError, match="Assumption 2"):
        _bound(zeros, 3)
    single = DistributionTable(half.contexts[:1], np.ones(1), half.probabilities[:1], half.vocabulary)
    assert _bound(single, 1).kl == 0.0
    with pytest.raises(UsageError, match="d_model"):
        _bound(table, 0)


def test_the_inner_problem_survives_hard_distributions() -> None:
    rows = np.full((6, 6), 1e-9)
    np.fill_diagonal(rows, 1 - 5e-9)
    table = DistributionTable(np.array([[i] for i in range(6)]), np.full(6, 1 / 6), rows, _random(0, 20, 6).vocabulary)
    found = _bound(table, 2, starts=3)
    # Six unit vectors on a circle, scaled: nearly one-hot distributions are nearly reached with d = 2.
    assert 0 < found.kl < 1e-3


def test_theorem_two_is_above_the_best_encoder() -> None:
    checked = 0
    for noise in (0.01, 0.3):
        table = lookup_distributions(40, 2, 16, rng=np.random.default_rng(1), noise=noise)
        for d in (6, 10):
            found = lookup_bound(table, d, rng=np.random.default_rng(2))
            assert found.measured_c >= welch(16, d) - 1e-9
            assert found.printed is None  # sqrt(32 ln 17 / d) is far above one half
            if found.measured is not None:
                assert found.measured >= _bound(table, d, starts=1).kl
                checked += 1
    assert checked >= 2
    assert lookup_bound(table, 1, rng=np.random.default_rng(0)).measured is None
    assert coherence(frame(5, 8, rng=np.random.default_rng(0))) == 0.0


def _layer(
    table: DistributionTable, bound: EncoderBound, epsilon: float, method: str, d_head: int
) -> tuple[float, float]:
    t_eps = table.t_eps(epsilon)
    heads = fewest_heads(table, t_eps, bound.d_model, d_head)
    assert heads is not None
    made = attend(
        table,
        bound,
        n_heads=heads,
        d_head=d_head,
        n_contexts=t_eps,
        method=method,  # type: ignore[arg-type]
        rng=np.random.default_rng(3),
    )
    if method == "interpolation" and epsilon:
        assert made.C is not None and made.C > 2
        assert made.kl64 - bound.kl <= made.excess(table.leftover(t_eps))  # Theorem 1
    return made.kl64, made.kl32


def test_the_layer_meets_the_bound_and_the_refit_mends_interpolation() -> None:
    table = random_distributions(150, 2, 15, rng=np.random.default_rng(0), alpha=1.0, spread=1.3)
    bound = _bound(table, 5, starts=2)
    for d_head in (5, 2):
        kl64, kl32 = _layer(table, bound, 0.0, "interpolation", d_head)
        assert abs(kl64 - bound.kl) < 1e-10
        assert abs(kl32 - bound.kl) < 1e-6
    for epsilon in (0.02, 0.2):
        theorem, _ = _layer(table, bound, epsilon, "interpolation", 5)
        refitted, single = _layer(table, bound, epsilon, "refit", 5)
        assert bound.kl - 1e-9 <= refitted <= bound.kl + 2 * epsilon
        assert single == pytest.approx(refitted, abs=1e-5)
        assert refitted < theorem
    with pytest.raises(CapacityError, match="T_eps = 150"):
        attend(table, bound, n_heads=2, d_head=5, n_contexts=150, method="refit", rng=np.random.default_rng(0))


def test_contexts_of_one_token_need_no_heads() -> None:
    table = random_distributions(12, 1, 12, rng=np.random.default_rng(0), spread=2.0)
    bound = _bound(table, 4, starts=2)
    made = attend(table, bound, n_heads=1, d_head=1, n_contexts=12, method="refit", rng=np.random.default_rng(0))
    assert made.method == "embedding" and abs(made.kl32 - bound.kl) < 1e-6
    assert math.isfinite(made.kl64)
