"""Trained models: the same road, the same certificate, and no promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import rote
from rote import constructions
from rote.config import Architecture, Shape
from rote.constructions import Job
from rote.constructions.trained import BITS, Trained, _Construction
from rote.data import FactTable, random_facts
from rote.errors import CapacityError, UsageError
from rote.training import ModelSpec, TokenStack, get_recipe, initial_weights
from rote.training.forward import token_logits


@pytest.fixture
def table() -> FactTable:
    return random_facts(40, 3, 12, rng=np.random.default_rng(7))


@pytest.mark.parametrize("arch", [Architecture(2, 8, 3, 3, 12), Architecture(1, 8, 8, 3, 12, d_mlp=20, gated=True)])
def test_the_model_says_what_the_trainer_computes(arch: Architecture, table: FactTable) -> None:
    spec, rng = ModelSpec("transformer", arch), np.random.default_rng(0)
    weights = {name: torch.from_numpy(value) for name, value in initial_weights(spec, rng).items()}
    model = _Construction._model(Job(table, arch, Trained(), "float64", rng), weights, {})
    stacked = {name: tensor[None] for name, tensor in weights.items()}
    own = token_logits(spec, stacked, TokenStack.of([table]).contexts)[0].T
    assert torch.allclose(own, model.module(torch.from_numpy(table.contexts.copy())), atol=1e-12)


def test_what_the_certificate_says_of_the_training(table: FactTable) -> None:
    memory = rote.build(table, Trained(), rng=5)
    said, report = memory.certificate, memory.certificate.report
    assert (said.construction, said.model, said.seed, said.bound) == ("trained", "transformer", 5, None)
    assert said.recall["float32"] == 1 and said.passed and said.judged_by == "referee"
    assert said.params == said.stored_params == memory.model.arch.params()
    assert said.bits_per_param == pytest.approx(table.bits / said.params)
    assert (report["recipe"], report["optimiser"], report["most_steps"], report["starts"]) == ("best", "soap", 4000, 1)
    assert 0 < report["steps"] < 4000 and 0 < report["loss"] < np.log(12) and report["recalled"] == 40
    assert f"recipe best: {report['steps']} of at most 4,000 steps" in str(memory.sheet())


def test_facts_lost_are_refused_or_kept_and_counted(table: FactTable) -> None:
    short = Trained(steps=5, recipe="best_overload", restarts=1)
    with pytest.raises(CapacityError, match=r"trained with 1 head of 2, d_model 2 lost \d+ of 40 facts.*partial"):
        rote.build(table, short, n_heads=1, d_model=2)
    memory = rote.build(table, short, n_heads=1, d_model=2, partial=True)
    assert not memory.certificate.passed and memory.certificate.recall["float32"] < 1
    assert memory.certificate.report["recalled"] == round(40 * memory.certificate.recall["float32"])
    assert (memory.certificate.report["starts"], memory.certificate.report["steps"]) == (2, 5)


def test_a_model_that_is_rounded_is_trained_until_the_rounded_one_recalls_everything() -> None:
    table = random_facts(300, 3, 20, rng=np.random.default_rng(0))
    coarse, fine = (rote.build(table, Trained(), dtype=d, n_heads=8, d_model=8) for d in ("bfloat16", "float32"))
    assert coarse.certificate.recall["bfloat16"] == 1
    assert coarse.certificate.report["steps"] >= fine.certificate.report["steps"]
    assert {t.dtype for t in coarse.module.state_dict().values()} == {torch.bfloat16}


def test_progress_counts_steps_and_what_is_recalled(table: FactTable) -> None:
    told: list[tuple[str, int, int, int | None]] = []
    memory = rote.build(table, Trained(steps=400), n_heads=2, d_model=8, progress=lambda *one: told.append(one))
    steps = [one for one in told if one[0] == "train"]
    assert [done for _, done, _, _ in steps] == sorted(done for _, done, _, _ in steps)
    assert {total for _, _, total, _ in steps} == {400}
    assert steps[-1][1] < memory.certificate.report["steps"] <= 400
    assert all(recalled is not None and 0 <= recalled <= 40 for *_, recalled in steps)


@pytest.mark.parametrize("recipe", ["dana2025", "mahdavi2024"])
def test_published_recipes_train_with_their_batches(recipe: str, table: FactTable) -> None:
    memory = rote.build(table, Trained(recipe=recipe, steps=300, batch=16), n_heads=2, d_model=8, partial=True)
    report = memory.certificate.report
    assert (report["recipe"], report["batch"], report["optimiser"]) == (recipe, 16, "adam")
    assert report["steps"] <= 300 and memory.certificate.recall["float32"] > 0.3


def test_the_planned_shape_has_room_and_honours_what_is_fixed() -> None:
    construction = constructions.get("trained")
    for n_facts, context, vocab in ((5, 1, 9), (1000, 2, 50), (3000, 4, 300), (20_000, 3, 1000)):
        table = random_facts(n_facts, context, vocab, rng=np.random.default_rng(0))
        plans = list(construction.shapes(table, Shape(), "float32", Trained()))
        assert [p.params for p in plans] == sorted(p.params for p in plans)
        assert context == 1 or table.bits <= BITS * plans[0].params
        for shape in (Shape(n_heads=3), Shape(d_model=24), Shape(d_head=4), Shape(4, 16, 8, 32)):
            for plan in construction.shapes(table, shape, "float32", Trained()):
                found = {name: getattr(plan.architecture, name) for name in shape.given}
                assert found == shape.given
                assert plan.architecture.d_head <= plan.architecture.d_model


def test_auto_never_trains_and_plan_names_it_only_when_asked(table: FactTable) -> None:
    assert "trained" not in {plan.construction for plan in rote.plan(table)}
    assert [plan.construction for plan in rote.plan(table, ["trained"])] == ["trained"]
    assert "trained" not in constructions.measurable("facts")
    assert "trained" not in str(rote.build(table, rng=0).certificate.chosen)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"recipe": "bset"}, "did you mean 'best'"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"rate": -1.0}, "learning rate must be a positive number"),
        ({"rate": float("nan")}, "learning rate must be a positive number"),
        ({"batch": True}, "a whole number or None for batch"),
        ({"restarts": -1}, "restarts must be at least 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str, table: FactTable) -> None:
    with pytest.raises(UsageError, match=said):
        rote.build(table, "trained", options=options)


def test_a_rate_that_tears_the_weights_apart_is_said_so(table: FactTable) -> None:
    with pytest.raises(CapacityError, match="lower the rate"):
        rote.build(table, Trained(recipe="dana2025", steps=200, rate=1e30), n_heads=1, d_model=8)


def test_a_step_that_does_not_fit_into_memory_is_refused() -> None:
    table = random_facts(200, 4, 10, rng=np.random.default_rng(0))
    huge = Architecture(100_000, 1000, 1000, 4, 10)
    with pytest.raises(UsageError, match="GB for a step on 200 facts at once"):
        constructions.get("trained").check(table, huge, Trained())


def test_changed_recipes_count_their_own_steps() -> None:
    dana = get_recipe("dana2025").adjusted(steps=77, rate=0.02)
    assert (dana.n_steps(10**6), dana.schedule, dana.epochs) == (77, "linear", None)
    assert dana.rate_end / dana.rate == pytest.approx(0.05)
    assert get_recipe("best").adjusted(batch=64).batch == 64
