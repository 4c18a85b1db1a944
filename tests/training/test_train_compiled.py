"""The compiled loop against the stacked one in torch: same facts, same batches, same weights up to rounding."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from rote.config import Architecture
from rote.data import random_facts, random_vectors
from rote.training import ModelSpec, Outcome, compiled, compiled_layer, get_recipe, train
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


@pytest.mark.parametrize("n_classes", [6, None])
@pytest.mark.parametrize("sharing", ["shared", "own"])
def test_the_same_steps_over_vectors(
    sharing: Literal["shared", "own"], n_classes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Best loss kept, counted every four steps, the last batch of a pass shorter."""
    spec = ModelSpec("layer", Architecture(3, 8, 5, 4, n_classes or 2), regression=n_classes is None)
    recipe = get_recipe("mahdavi2024").replace(epochs=None, steps=11, batch=16, check_every=4, rate=0.01)
    tables = [
        random_vectors(40, 4, 8, rng=np.random.default_rng(seed), sharing=sharing, n_classes=n_classes)
        for seed in range(2)
    ]
    found = []
    for least in (1, 10**9):
        monkeypatch.setattr(compiled_layer, "_LEAST_STEPS", least)
        found.append(train(spec, tables, recipe, [0, 1]))
    for ours, theirs in zip(*found, strict=True):
        assert ours.steps == theirs.steps == 11
        assert ours.recalled == theirs.recalled
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-5)
        for name, tensor in theirs.weights.items():
            np.testing.assert_allclose(ours.weights[name], tensor, atol=2e-5, err_msg=name)


def test_layers_stop_when_all_is_recalled(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ModelSpec("layer", Architecture(4, 8, 8, 4, 6))
    recipe = get_recipe("mahdavi2024").replace(epochs=None, steps=400, batch=5, check_every=20, rate=0.01)
    table = random_vectors(8, 4, 8, rng=np.random.default_rng(0), sharing="own", n_classes=6)
    steps = []
    for least in (1, 10**9):
        monkeypatch.setattr(compiled_layer, "_LEAST_STEPS", least)
        (found,) = train(spec, [table], recipe, [0])
        assert found.share == 1.0
        steps.append(found.steps)
    assert steps[0] == steps[1] < 400
