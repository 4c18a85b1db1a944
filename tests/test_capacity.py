"""`rote.bounds` and `rote.plan` from Python: what they take, what they refuse, and what they show."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import rote
from rote.capacity import bounds
from rote.config import Architecture
from rote.data import random_facts, random_vectors
from rote.errors import RoteError, UsageError
from rote.plans import plan
from rote.theorems import Bound, Demand, Setting

ARCH = Architecture(8, 64, 64, 32, 1000)


def test_bounds_of_a_shape_and_of_a_setting() -> None:
    answer = bounds(ARCH)
    assert answer == bounds(Setting(ARCH))
    assert {"dana2025_cor1", "counting"} <= {one.theorem for one in answer}
    kinds = [one.kind for one in answer]
    assert kinds == sorted(kinds, key=["lower", "upper", "order", "empirical"].index)
    assert isinstance(answer[0], Bound)
    assert len(answer[:2]) == 2
    assert repr(answer) == "Bounds(35 theorems about 8 heads of 64, d_model 64)"
    sheet = answer.sheet(full=True)
    assert sheet.grids[0].title == "lower: this much fits"
    assert sheet.grids[0].columns == ("theorem", "facts", "params", "bits/param", "conditions")
    assert sheet.grids[0].rows[0] == (
        "dana2025_cor1\nH d_h + d = 8 * 64 + 64 = 576",
        "576",
        "261,120",
        "0.022",
        "? distinct contexts\n? distinct last tokens",
    )
    json.dumps(answer.to_dict(), allow_nan=False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        answer.bounds = ()  # type: ignore[misc]
    assert [one.theorem for one in bounds(ARCH, ["counting"])] == ["counting"]


def test_a_bound_is_short_and_can_be_shown() -> None:
    bound = bounds(ARCH, ["dana2025_cor1"])[0]
    assert repr(bound) == "Bound(dana2025_cor1: lower, 576 facts, 261,120 parameters)"
    assert "distinct last tokens" in bound._repr_html_()
    assert "AISTATS" in bound._repr_html_()


def test_plans_for_tables_and_demands() -> None:
    table = random_facts(60, 3, 20, rng=np.random.default_rng(0))
    answer = plan(table)
    assert {one.construction for one in answer} >= {"dana2025_cor1", "argmax_fit", "mlp_fit", "stock_llama"}
    assert [one.params for one in answer] == sorted(one.params for one in answer)
    assert "mahdavi2024_thm1" not in {one.construction for one in (*answer, *answer.refused)}
    assert repr(answer).startswith(
        f"Plans({len(answer)} shapes for 60 facts, 20 tokens, contexts of 3, float32: smallest"
    )
    columns = ("construction", "layers", "heads", "d_model", "d_mlp", "params", "size", "time", "GB")
    assert answer.sheet().grids[0].columns == columns
    assert "dana2025_cor1" in answer._repr_html_()
    json.dumps(answer.to_dict(), allow_nan=False)
    wide = plan(table, ["argmax_fit"], d_model=16, n_heads=4)
    assert (wide[0].architecture.d_model, wide[0].architecture.n_heads) == (16, 4)
    small = plan(Demand(60, 20, 3), max_params=300)
    assert all(one.params <= 300 for one in small)
    assert any("more than the 300 allowed" in one.reason for one in small.refused)
    vectors = plan(random_vectors(20, 4, 6, rng=np.random.default_rng(0)))
    assert {one.construction for one in vectors} == {"mahdavi2024_thm1", "mahdavi_random_features"}
    assert [one.construction for one in vectors.refused] == ["kajitsuka2025_next_token"]
    named = plan(table, ["mahdavi2024_thm1"])
    assert (len(named), named.refused[0].reason) == (0, "it is built from vectors, and these are facts")
    assert named.sheet().title == "No construction fits"


def test_what_is_planned_can_be_built() -> None:
    table = random_facts(60, 3, 20, rng=np.random.default_rng(0))
    chosen = plan(table, ["dana2025_cor1"])[0].architecture
    memory = rote.build(table, "dana2025_cor1", n_heads=chosen.n_heads, d_model=chosen.d_model, d_head=chosen.d_head)
    assert memory.certificate.shape == chosen.to_dict()


@pytest.mark.parametrize("thing", [None, 7, "countries", [1, 2]])
def test_anything_else_is_refused_in_a_sentence(thing: object) -> None:
    with pytest.raises(UsageError, match=r"rote\.bounds is about a shape.*\."):
        bounds(thing)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"rote\.plan needs a table or a Demand.*\."):
        plan(thing)  # type: ignore[arg-type]


def test_tables_and_shapes_are_not_mixed_up() -> None:
    table = random_facts(6, 2, 20, rng=np.random.default_rng(0))
    with pytest.raises(UsageError, match=r"rote\.plan finds shapes"):
        bounds(table)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Demand"):
        plan(ARCH)  # type: ignore[arg-type]
    with pytest.raises(RoteError, match="argmax_fit"):
        plan(table, ["argmaxfit"])
    with pytest.raises(RoteError, match="number format"):
        plan(table, dtype="float31")


def test_options_that_change_sizes_change_plans() -> None:
    """Weights are counted as they will be stored, and positions tell contexts apart that differ only by order."""
    demand = Demand(1000, 100, 2)
    for key in ("dana2025_cor1", "argmax_fit"):
        full, rank1 = (plan(demand, [key], options={"rank1_qk": given})[0] for given in (False, True))
        assert full.params == full.architecture.params()
        assert rank1.params == rank1.architecture.params("rank1_qk") <= full.architecture.params("rank1_qk")
        assert rank1.bytes == 4 * rank1.params
    bags = Demand(9, 3, 2)
    assert "order does not count" in plan(bags, ["kajitsuka2025_next_token"]).refused[0].reason
    positions = {"with_positions": True}
    assert "positions count" in plan(bags, ["kajitsuka2025_next_token"], options=positions)[0].note
    assert "depends on the data" in plan(bags, options={"variant": "C"}).refused[0].reason


@pytest.mark.parametrize(
    ("key", "options"), [("dana2025_cor1", {"rank1_qk": True}), ("argmax_fit", {"rank1_qk": True})]
)
def test_a_plan_counts_what_the_model_stores(key: str, options: dict[str, object]) -> None:
    table = random_facts(40, 3, 20, rng=np.random.default_rng(0))
    planned = plan(table, [key], options=options)[0]
    shape = planned.architecture
    made = rote.build(
        table, key, n_heads=shape.n_heads, d_model=shape.d_model, d_head=shape.d_head, options=options, partial=True
    )
    assert made.certificate.stored_params == planned.params


@pytest.mark.parametrize(("facts", "vocab", "context"), [(40, 7, 2), (200, 6, 4), (60, 4, 3), (9, 3, 2)])
def test_a_planned_network_with_positions_is_large_enough(facts: int, vocab: int, context: int) -> None:
    table, told = random_facts(facts, context, vocab, rng=np.random.default_rng(1)), {"with_positions": True}
    planned = plan(table, ["kajitsuka2025_next_token"], options=told)[0]
    assert rote.build(table, "kajitsuka2025_next_token", options=told).certificate.params <= planned.params


def test_options_that_nothing_here_has_are_refused() -> None:
    with pytest.raises(UsageError, match="no construction has kl that plans without data; it needs a table"):
        plan(Demand(100, 10, 2), options={"kl": 0.1})
    table = random_facts(6, 2, 20, rng=np.random.default_rng(0))
    with pytest.raises(UsageError, match="no construction has kl that plans for facts"):
        plan(table, options={"kl": 0.1})
    with pytest.raises(UsageError, match="there is no variant 'Q'; known: A, B, C"):
        plan(Demand(100, 10, 2), options={"variant": "Q"})
