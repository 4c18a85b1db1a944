"""The trainer: recipes, stacks, stopping, divergence, memory."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch

from rote.config import Architecture
from rote.data import FactTable, bigram_facts, random_facts, random_vectors
from rote.errors import UnknownName, UsageError
from rote.training import RECIPES, ModelSpec, bytes_needed, get_recipe, train
from rote.training.optim import Adam, Soap


def facts(count: int, seeds: int, vocab: int = 8, context: int = 2) -> list[FactTable]:
    return [random_facts(count, context, vocab, rng=np.random.default_rng(seed)) for seed in range(seeds)]


def test_published_schedules() -> None:
    dana = get_recipe("dana2025")
    total = dana.n_steps(2500)
    assert total == 64 * 64
    # Their scheduler multiplies: 0.1 * 0.1 at first, and after 64 epochs 0.1 * 0.005.
    assert dana.rate_at(0, total) == pytest.approx(0.01)
    assert dana.rate_at(63, total) == pytest.approx(0.01)
    assert dana.rate_at(64, total) == pytest.approx(0.1 * (0.1 + (0.005 - 0.1) / 64))
    assert dana.rate_at(total, total) == pytest.approx(0.0005)
    mahdavi = get_recipe("mahdavi2024")
    assert mahdavi.n_steps(1300) == 50_000
    assert mahdavi.n_steps(100_000) == 500 * 100_000 // 256
    assert mahdavi.rate_at(0, 50_000) == pytest.approx(1e-5)
    assert mahdavi.rate_at(2500, 50_000) == pytest.approx(1e-3)
    assert mahdavi.rate_at(50_000, 50_000) == pytest.approx(0.0, abs=1e-12)
    assert get_recipe("dana2025_full").steps == round(2**14 * 64 / 2500)


@pytest.mark.parametrize("name", ["adam", "torch's schedulers"])
def test_against_torch(name: str) -> None:
    if name == "adam":
        mine, theirs = torch.ones(2, 3), torch.ones(2, 3, requires_grad=True)
        ours, reference = Adam([mine], (0.9, 0.999)), torch.optim.Adam([theirs], lr=0.01)
        for k in range(1, 6):
            # Transposed in memory, as gradients of transposed products are.
            grad = (torch.arange(6.0).reshape(3, 2) * k - 2).T
            ours.step([grad], 0.01)
            theirs.grad = grad.contiguous()
            reference.step()
        assert torch.allclose(mine, theirs, atol=1e-6)
        return
    recipe = get_recipe("mahdavi2024").replace(epochs=None, steps=200)
    optimiser = torch.optim.Adam([torch.ones(1, requires_grad=True)], lr=1e-3)
    with warnings.catch_warnings():
        # Their own schedulers warn about their own use.
        warnings.simplefilter("ignore")
        schedule = torch.optim.lr_scheduler.SequentialLR(
            optimiser,
            [
                torch.optim.lr_scheduler.LinearLR(optimiser, start_factor=0.01, total_iters=10),
                torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=190),
            ],
            milestones=[10],
        )
        for step in range(200):
            assert optimiser.param_groups[0]["lr"] == pytest.approx(recipe.rate_at(step, 200), abs=1e-9), step
            optimiser.step()
            schedule.step()


def test_soap_solves_what_adam_finds_hard() -> None:
    """An ill-conditioned quadratic in a rotated basis: SOAP is Adam in the right basis."""
    generator = torch.Generator().manual_seed(0)
    turn, _ = torch.linalg.qr(torch.randn(8, 8, generator=generator))
    curve = turn @ torch.diag(torch.logspace(0, 4, 8)) @ turn.T

    def after(soap: bool) -> float:
        x = torch.randn(1, 8, 4, generator=torch.Generator().manual_seed(1))
        optimiser = Soap([x], (0.9, 0.95)) if soap else Adam([x], (0.9, 0.95))
        for step in range(300):
            optimiser.step([curve @ x], 0.05 * (1 - step / 300))
        return float((x * (curve @ x)).sum())

    assert after(True) < after(False)


@pytest.mark.parametrize("name", ["best", "best_overload", "dana2025", "dana2025_full"])
def test_every_token_recipe_learns(name: str) -> None:
    recipe = get_recipe(name)
    if recipe.draws is not None:
        recipe = recipe.replace(draws=512, **({"batch": 32, "epochs": 12} if recipe.batch else {"steps": 100}))
    else:
        recipe = recipe.replace(steps=200)
    found = train(ModelSpec(recipe.family, Architecture(4, 8, 8, 2, 8)), facts(30, 2), recipe, [0, 1])
    for outcome in found:
        assert outcome.status == "done"
        assert outcome.share > 0.8
        assert 0.6 < outcome.published <= 1


@pytest.mark.parametrize("n_classes", [6, None])
@pytest.mark.parametrize("sharing", ["shared", "own"])
def test_vectors_are_learnt(n_classes: int | None, sharing: str) -> None:
    table = random_vectors(12, 4, 8, rng=np.random.default_rng(0), sharing=sharing, n_classes=n_classes)  # type: ignore[arg-type]
    spec = ModelSpec("layer", Architecture(6, 8, 8, 4, n_classes or 2), regression=n_classes is None)
    (found,) = train(spec, [table], get_recipe("best").replace(steps=1500), [0])
    assert found.share == 1.0
    published = get_recipe("mahdavi2024").replace(epochs=None, steps=200, batch=5, check_every=50, rate=0.01)
    (found,) = train(spec, [table], published, [0])
    assert found.status == "done" and math.isfinite(found.loss)


def test_a_replica_does_not_depend_on_its_stack() -> None:
    """Apart from rounding: a vector of other length is summed in another order."""
    recipe = get_recipe("dana2025_full").replace(steps=15, draws=200, rate=0.01)
    spec = ModelSpec("aot", Architecture(3, 5, 5, 2, 8))
    tables = facts(40, 4)
    together = train(spec, tables, recipe, [0, 1, 2, 3])
    split = train(spec, tables, recipe, [0, 1, 2, 3], max_memory=bytes_needed(spec, recipe, 40))
    for one, two in zip(together, split, strict=True):
        assert one.recalled == two.recalled
        for name in one.weights:
            assert torch.allclose(one.weights[name], two.weights[name], atol=1e-4)


def test_the_same_seed_gives_the_same_weights_and_touches_nothing_global() -> None:
    before = torch.random.get_rng_state()
    recipe = get_recipe("dana2025").replace(draws=128, batch=16, epochs=2)
    spec = ModelSpec("aot", Architecture(2, 4, 4, 2, 8))
    one, two = (train(spec, facts(20, 2), recipe, [5, 6]) for _ in range(2))
    for a, b in zip(one, two, strict=True):
        assert all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)
    assert torch.equal(before, torch.random.get_rng_state())


def test_tables_of_different_lengths_share_a_stack() -> None:
    tables = [random_facts(count, 2, 8, rng=np.random.default_rng(count)) for count in (5, 30)]
    spec = ModelSpec("transformer", Architecture(4, 8, 8, 2, 8))
    small, large = train(spec, tables, get_recipe("best").replace(steps=300), [0, 1])
    assert (small.n_facts, large.n_facts) == (5, 30)
    assert small.share == 1.0 and large.share == 1.0


def test_divergence_has_a_reason() -> None:
    recipe = get_recipe("dana2025_full").replace(rate=1e30, rate_end=1e30, steps=30)
    spec = ModelSpec("aot", Architecture(2, 4, 4, 2, 8))
    (found,) = train(spec, facts(20, 1), recipe, [0])
    assert found.status == "diverged" and "step" in found.reason
    assert found.recalled <= 20


def test_one_token_contexts_and_the_smallest_shapes() -> None:
    for arch, count in (
        (Architecture(1, 1, 1, 1, 2), 1),
        (Architecture(1, 2, 1, 2, 2), 1),
        (Architecture(1, 3, 3, 1, 5), 5),
    ):
        table = random_facts(count, arch.context, arch.vocab, rng=np.random.default_rng(0))
        (found,) = train(ModelSpec("transformer", arch), [table], get_recipe("best").replace(steps=300), [0])
        assert found.status == "done"
        assert found.n_facts == count


def test_memory_is_linear_in_facts() -> None:
    spec = ModelSpec("transformer", Architecture(16, 10, 10, 2, 50))
    recipe = get_recipe("best")
    small, large = (bytes_needed(spec, recipe, count) for count in (1000, 2000))
    assert large < 2 * small < 2.2 * large


def test_bad_calls() -> None:
    with pytest.raises(UnknownName, match="dana2025"):
        get_recipe("dana2024")
    with pytest.raises(UnknownName, match="rate"):
        get_recipe("best").replace(ratte=1)
    with pytest.raises(UsageError, match="one table"):
        train(ModelSpec("aot", Architecture(1, 2, 2, 2, 4)), [], get_recipe("best"), [])
    with pytest.raises(UsageError, match="positive"):
        get_recipe("best").replace(rate=0.0)
    with pytest.raises(UsageError, match="not both"):
        get_recipe("best").replace(epochs=3)
    assert all(name == recipe.name for name, recipe in RECIPES.items())


def test_drawn_facts_count_as_often_as_they_were_drawn() -> None:
    """Overloaded: frequent facts are learnt first, so the published figure is above the share of facts."""
    spec = ModelSpec("aot", Architecture(1, 4, 4, 2, 12))
    table = bigram_facts(12, rng=np.random.default_rng(0))
    (found,) = train(spec, [table], get_recipe("dana2025").replace(draws=400, batch=40, epochs=30), [0])
    assert found.published > found.share
