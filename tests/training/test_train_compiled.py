"""The compiled loop against the stacked one in torch: same facts, same batches, same weights up to rounding."""

from __future__ import annotations

import numpy as np
import pytest

from rote.config import Architecture
from rote.data import random_facts
from rote.training import ModelSpec, Outcome, compiled, get_recipe, train
from rote.training.recipes import Recipe

SPECS = [
    ModelSpec("aot", Architecture(5, 6, 6, 2, 9)),
    ModelSpec("aot", Architecture(9, 6, 2, 2, 9)),
    ModelSpec("transformer", Architecture(8, 5, 3, 2, 9)),
    ModelSpec("aot", Architecture(3, 26, 26, 2, 9)),
]


def short(**changes: object) -> Recipe:
    """Three passes over 100 draws in batches of 32, the last of which has four."""
    return get_recipe("dana2025").replace(draws=100, batch=32, epochs=3, **changes)


def both(
    spec: ModelSpec, recipe: Recipe, monkeypatch: pytest.MonkeyPatch, seeds: tuple[int, ...] = (0, 1)
) -> tuple[list[Outcome], list[Outcome]]:
    tables = [random_facts(40, 2, spec.arch.vocab, rng=np.random.default_rng(seed)) for seed in seeds]
    found = []
    for least in (1, 10**9):
        monkeypatch.setattr(compiled, "_LEAST_STEPS", least)
        assert compiled.suits(spec, recipe, recipe.n_steps(40)) == (least == 1)
        found.append(train(spec, tables, recipe, seeds))
    return found[0], found[1]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.family}-d{spec.arch.d_model}-h{spec.arch.d_head}")
def test_the_same_steps(spec: ModelSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    for ours, theirs in zip(*both(spec, short(), monkeypatch), strict=True):
        assert ours.steps == theirs.steps == 12
        assert ours.published == pytest.approx(theirs.published, abs=1e-6)
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-5)
        assert ours.recalled == theirs.recalled
        for name, tensor in theirs.weights.items():
            np.testing.assert_allclose(ours.weights[name], tensor, atol=2e-4, err_msg=name)


def test_a_number_of_steps_that_ends_within_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = short().adjusted(steps=6)
    for ours, theirs in zip(*both(SPECS[0], recipe, monkeypatch), strict=True):
        assert ours.steps == theirs.steps == 6
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-5)


def test_a_replica_is_the_same_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    together, _ = both(SPECS[1], short(), monkeypatch)
    (alone,), _ = both(SPECS[1], short(), monkeypatch, seeds=(1,))
    for name, tensor in alone.weights.items():
        assert (together[1].weights[name] == tensor).all(), name


def test_divergence_is_reported_where_torch_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for ours, theirs in zip(*both(SPECS[0], short(rate=1e38), monkeypatch), strict=True):
        assert ours.status == theirs.status == "diverged"
        assert ours.reason == theirs.reason


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (ModelSpec("aot", Architecture(2, 6, 6, 3, 9)), "dana2025"),
        (ModelSpec("aot", Architecture(2, 6, 6, 2, 9, n_layers=2)), "dana2025"),
        (ModelSpec("aot", Architecture(2, 6, 6, 2, 9, d_mlp=4)), "dana2025"),
        (ModelSpec("prenorm", Architecture(2, 6, 3, 2, 9)), "dana2025"),
        (SPECS[0], "dana2025_full"),
        (SPECS[0], "best"),
    ],
)
def test_other_models_and_recipes_are_left_to_torch(spec: ModelSpec, name: str) -> None:
    assert not compiled.suits(spec, get_recipe(name), 10**6)
