"""What attempts may take: estimates keep `auto` away from what does not fit, and what is left still works."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import rote
from rote import constructions, pipeline
from rote.config import Architecture, Shape
from rote.constructions import Plan
from rote.constructions._base import Needs
from rote.data import random_facts
from rote.errors import CapacityError, FactsLost, UsageError
from rote.memory_budget import memory_budget, out_of_memory


def test_a_small_budget_leaves_what_fits() -> None:
    """With next to no memory for fits and systems, the hashed table is what remains."""
    table = random_facts(300, 4, 40, rng=np.random.default_rng(0))
    assert rote.build(table).certificate.construction != "hashed_table"
    memory = rote.build(table, max_memory=0.002)
    assert memory.certificate.construction == "hashed_table"
    assert memory.certificate.recall["float32"] == 1.0
    assert "GB" in str(memory.certificate.chosen)


def test_a_named_construction_says_what_it_needs() -> None:
    table = random_facts(500, 3, 30, rng=np.random.default_rng(0))
    with pytest.raises(CapacityError, match="GB"):
        rote.build(table, with_="argmax_fit", max_memory=1e-6)


def test_no_budget_of_nothing() -> None:
    table = random_facts(20, 3, 30, rng=np.random.default_rng(0))
    for wrong in (0, -1.0, float("nan")):
        with pytest.raises(UsageError, match="gigabytes"):
            rote.build(table, max_memory=wrong)


def test_estimates_grow_with_the_attempt() -> None:
    small, large = (random_facts(n, 4, 60, rng=np.random.default_rng(0)) for n in (100, 2000))
    for key, shapes in {
        "argmax_fit": (Architecture(4, 8, 8, 4, 60), Architecture(64, 8, 8, 4, 60)),
        "dana2025_cor1": (Architecture(12, 8, 8, 4, 60), Architecture(250, 8, 8, 4, 60)),
    }.items():
        one = constructions.get(key)
        demands = [table.demand("float32", Shape()) for table in (small, large)]
        first, second = (
            one.needs(demand, one.as_plan(shape, demand)) for demand, shape in zip(demands, shapes, strict=True)
        )
        assert first is not None and second is not None
        assert second.bytes > first.bytes and second.seconds > first.seconds


def test_memory_is_told_from_other_errors() -> None:
    assert memory_budget() > 1e8
    assert out_of_memory(MemoryError()) and out_of_memory(RuntimeError("can't allocate memory: 5 bytes"))
    assert not out_of_memory(RuntimeError("shapes do not match"))


@pytest.mark.parametrize("arch", ["rote", "llama"])
def test_plans_tell_what_building_takes(arch: str) -> None:
    """More facts take more time and more memory, by every construction of either architecture."""
    small, large = (
        {plan.construction: plan for plan in rote.plan(random_facts(n, 4, 90, rng=np.random.default_rng(0)), arch=arch)}
        for n in (200, 2000)
    )
    assert small and small.keys() == large.keys()
    for key, plan in small.items():
        more = large[key].needs
        assert plan.needs is not None and more is not None
        assert more.bytes > plan.needs.bytes and more.seconds > plan.needs.seconds, key
        assert large[key].to_dict()["build_bytes"] == more.bytes


def test_plans_without_data_tell_it_too() -> None:
    plans = rote.plan(rote.Demand(10_000, 1000, 4))
    assert all(plan.needs is not None for plan in plans)
    columns = plans.sheet().grids[0].columns
    assert columns[-2:] == ("time", "GB")


def test_what_is_smaller_and_was_not_tried_is_said() -> None:
    """Of other architectures by their plans, where none was asked for; and of what takes too much memory."""
    elements = rote.read("elements")
    memory = rote.build(elements)
    planned = {plan.construction: plan.params for plan in rote.plan(elements, arch="llama")}
    smaller = {key for key, params in planned.items() if params < memory.certificate.params}
    over = memory.certificate.claims.get("passed_over", [])
    assert {one.partition(",")[0] for one in over} == smaller
    if smaller:
        assert any("smaller, but not tried" in line for line in memory.sheet().lines)
    table = random_facts(300, 4, 40, rng=np.random.default_rng(0))
    poor = rote.build(table, max_memory=0.002, arch="rote").certificate
    assert poor["passed_over"] and all("GB" in one for one in poor["passed_over"])
    assert all(int(one.split(", ")[1].split()[0].replace(",", "")) < poor.params for one in poor["passed_over"])


def test_attempts_of_auto_share_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of the time after the first attempts decides, and what takes a short time is always tried."""
    table = random_facts(300, 4, 40, rng=np.random.default_rng(0))
    monkeypatch.setattr(pipeline, "MOST_SECONDS", 0.0)
    monkeypatch.setattr(pipeline, "_SHORT", 0.0)
    with pytest.raises(CapacityError, match="minutes"):
        rote.build(table)
    monkeypatch.setattr(pipeline, "_SHORT", 60.0)
    assert rote.build(table).certificate.passed


def test_what_there_was_no_time_left_for_has_its_turn_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts that lose facts use the time up; where nothing else succeeds, each has the whole of it."""
    table = random_facts(300, 4, 40, rng=np.random.default_rng(0))
    clock = iter(float(1000 * i) for i in range(1000))
    monkeypatch.setattr("rote.pipeline.time.process_time", lambda: next(clock))
    monkeypatch.setattr(pipeline, "_SHORT", 0.0)
    monkeypatch.setattr(constructions.get("argmax_fit"), "needs", lambda *_: Needs(0, 1.0))
    monkeypatch.setattr(constructions.get("argmax_fit"), "build", _loses)
    memory = rote.build(table)
    assert memory.certificate.passed and memory.certificate.construction != "argmax_fit"


def _loses(_: object) -> None:
    raise FactsLost("lost 1 of 300 facts", recall=299 / 300)


def test_auto_stays_in_comfort_unless_it_is_told_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rote.memory_budget._free", lambda: 20e9)
    assert memory_budget() == 12e9
    assert memory_budget(None, 1000) == 1.2e9
    assert memory_budget(None, 10**7) == 1e10
    assert memory_budget(None, 10**8) == 12e9
    assert memory_budget(3.0, 1000) == 3e9


def test_planning_that_runs_out_of_memory_ends_no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    def starved(_: int) -> Plan:
        raise MemoryError

    def greedy(*_: object) -> Iterator[Plan]:
        return map(starved, range(1))

    table = random_facts(30, 3, 12, rng=np.random.default_rng(0))
    for name in ("argmax_fit", "stock_hashed"):
        monkeypatch.setattr(constructions.get(name), "shapes", greedy)
    memory = rote.build(table)
    assert memory.certificate.passed and "argmax_fit ran out of memory" in str(memory.certificate.chosen)


def test_what_exceeds_the_comfort_is_built_where_nothing_else_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rote.memory_budget._COMFORT", 1e3)
    monkeypatch.setattr("rote.memory_budget._COMFORT_OF_A_FACT", 1.0)
    table = random_facts(30, 3, 12, rng=np.random.default_rng(0))
    memory = rote.build(table)
    assert memory.certificate.passed and "GB allowed" in str(memory.certificate.chosen)
