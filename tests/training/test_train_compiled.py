"""The compiled loop against the stacked one in torch: same facts, same batches, same weights up to rounding."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch

from rote.config import Architecture
from rote.data import random_facts, random_vectors
from rote.training import (
    ModelSpec,
    Outcome,
    compiled,
    compiled_layer,
    get_recipe,
    initial_weights,
    tabled,
    train,
)
from rote.training.forward import token_logits
from rote.training.recipes import Recipe
from rote.training.tables import TokenStack

SPECS = [
    ModelSpec("aot", Architecture(5, 6, 6, 2, 9)),
    ModelSpec("aot", Architecture(9, 6, 2, 2, 9)),
    ModelSpec("transformer", Architecture(8, 5, 3, 2, 9)),
    ModelSpec("aot", Architecture(3, 26, 26, 2, 9)),
    ModelSpec("aot", Architecture(5, 6, 6, 2, 9, n_layers=3)),
    ModelSpec("transformer", Architecture(9, 5, 3, 2, 9, n_layers=2)),
    ModelSpec("aot", Architecture(2, 6, 6, 2, 9, d_mlp=21)),
    ModelSpec("transformer", Architecture(1, 6, 3, 2, 9, d_mlp=5)),
    ModelSpec("aot", Architecture(9, 6, 2, 2, 9, n_layers=3)),
    ModelSpec("aot", Architecture(3, 5, 7, 2, 9, n_layers=2, d_mlp=4)),
    ModelSpec("aot", Architecture(2, 6, 6, 2, 9, n_layers=3, d_mlp=17)),
    ModelSpec("transformer", Architecture(2, 6, 4, 2, 9, n_layers=3, d_mlp=5)),
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


@pytest.mark.parametrize(
    "spec", SPECS, ids=lambda spec: f"{spec.family}-{'-'.join(map(str, spec.shapes['W_Q.0']))}-{spec.params}"
)
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
        (ModelSpec("transformer", Architecture(2, 6, 6, 2, 9, d_mlp=4, gated=True)), "dana2025"),
        (ModelSpec("prenorm", Architecture(2, 6, 3, 2, 9)), "dana2025"),
        (SPECS[0], "dana2025_full"),
        (SPECS[0], "best"),
    ],
)
def test_other_models_and_recipes_are_left_to_torch(spec: ModelSpec, name: str) -> None:
    assert not compiled.suits(spec, get_recipe(name), 10**6)


@pytest.mark.parametrize(("n_heads", "context"), [(3, 4), (40, 30)])
@pytest.mark.parametrize("n_classes", [6, None])
@pytest.mark.parametrize("sharing", ["shared", "own"])
def test_the_same_steps_over_vectors(
    sharing: Literal["shared", "own"],
    n_classes: int | None,
    n_heads: int,
    context: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Best loss kept, counted every four steps, the last batch of a pass shorter; in the larger shape three examples
    at a time go through the softmax."""
    spec = ModelSpec("layer", Architecture(n_heads, 8, 5, context, n_classes or 2), regression=n_classes is None)
    recipe = get_recipe("mahdavi2024").replace(epochs=None, steps=11, batch=16, check_every=4, rate=0.01)
    tables = [
        random_vectors(40, context, 8, rng=np.random.default_rng(seed), sharing=sharing, n_classes=n_classes)
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


@pytest.mark.parametrize("sharing", ["shared", "own"])
def test_layers_say_that_they_diverged(sharing: Literal["shared", "own"], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not a number stays so on its way through the compiled loop."""
    spec = ModelSpec("layer", Architecture(3, 8, 5, 4, 6))
    recipe = get_recipe("mahdavi2024").replace(epochs=None, steps=40, batch=16, check_every=4, rate=1e36)
    table = random_vectors(40, 4, 8, rng=np.random.default_rng(0), sharing=sharing, n_classes=6)
    monkeypatch.setattr(compiled_layer, "_LEAST_STEPS", 1)
    (found,) = train(spec, [table], recipe, [0])
    assert found.status == "diverged"


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


TABLED = [
    ModelSpec("transformer", Architecture(5, 6, 6, 4, 9)),
    ModelSpec("aot", Architecture(9, 6, 2, 3, 9)),
    ModelSpec("aot", Architecture(3, 6, 6, 3, 9, d_mlp=7)),
    ModelSpec("transformer", Architecture(8, 5, 3, 2, 9, d_mlp=7, gated=True)),
]


@pytest.mark.parametrize("spec", TABLED, ids=lambda spec: f"{spec.family}-H{spec.arch.n_heads}-S{spec.arch.context}")
def test_tables_give_the_same_logits_and_gradients(spec: ModelSpec) -> None:
    """Two replicas, and more facts than one block has."""
    drawn = [initial_weights(spec, np.random.default_rng(seed)) for seed in range(2)]
    weights = {
        name: torch.from_numpy(2 * np.stack([one[name] for one in drawn]).astype(np.float32)).requires_grad_()
        for name in spec.shapes
    }
    rng = np.random.default_rng(2)
    contexts = torch.from_numpy(rng.integers(9, size=(2, spec.arch.context, 41)))
    toward = torch.from_numpy(rng.normal(size=(2, 9, 41)).astype(np.float32))
    found = []
    for logits in (tabled.tabled_logits(spec, weights, contexts), token_logits(spec, weights, contexts)):
        grads = torch.autograd.grad((logits * toward).sum(), list(weights.values()))
        found.append({"logits": logits.detach(), **dict(zip(weights, grads, strict=True))})
    for name, theirs in found[1].items():
        scale = float(theirs.abs().max())
        np.testing.assert_allclose(found[0][name], theirs, rtol=0, atol=2e-6 * max(scale, 1), err_msg=name)


def test_full_batches_through_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of different lengths in one stack; both ways recall everything, after as many steps."""
    spec = ModelSpec("transformer", Architecture(6, 6, 6, 4, 9))
    tables = [random_facts(count, 4, 9, rng=np.random.default_rng(count)) for count in (180, 200)]
    recipe = get_recipe("best").adjusted(steps=400)
    found = []
    for least in (1, 10**12):
        monkeypatch.setattr(tabled, "_LEAST_WORK", least)
        assert tabled.worthwhile(spec, TokenStack.of(tables), 400) == (least == 1)
        found.append(train(spec, tables, recipe, [0, 1]))
    assert [one.share for one in found[0]] == [one.share for one in found[1]] == [1.0, 1.0]
    assert found[0][0].steps == pytest.approx(found[1][0].steps, abs=40)


def test_tables_are_for_one_layer_and_small_vocabularies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabled, "_LEAST_WORK", 1)
    facts = TokenStack.of([random_facts(400, 3, 9, rng=np.random.default_rng(0))])
    assert tabled.worthwhile(ModelSpec("transformer", Architecture(6, 8, 8, 3, 9)), facts, 10)
    assert not tabled.worthwhile(ModelSpec("transformer", Architecture(6, 8, 8, 3, 9, n_layers=2)), facts, 10)
    assert not tabled.worthwhile(ModelSpec("prenorm", Architecture(6, 8, 8, 3, 9)), facts, 10)
    assert not tabled.worthwhile(ModelSpec("transformer", Architecture(6, 8, 8, 3, 900)), facts, 10)
