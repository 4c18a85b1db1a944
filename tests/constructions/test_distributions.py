"""Models of distributions, asked directly: what a shape affords, what the refit mends, what no width can do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rote
from rote import constructions
from rote.capacity import limits
from rote.constructions._distribution_shapes import LARGEST_SOLVE, capacity_of, epsilon_of, settle
from rote.data import DEFAULT_SMOOTHING, DistributionTable, lookup_distributions, random_distributions
from rote.errors import CapacityError, ShapeError, UsageError

RNG = np.random.default_rng
REFIT, PROOF = "distribution_refit", "dana2025_thm1"


@pytest.fixture(scope="module")
def table() -> DistributionTable:
    return random_distributions(16, 2, 6, rng=RNG(0), spread=1.5)


def shapes(table: DistributionTable, options: rote.DistributionRefit, **shape: int) -> list[rote.Plan]:
    return list(constructions.get(REFIT).shapes(table, rote.Shape(**shape), "float32", options))


@pytest.mark.parametrize(
    ("options", "shape", "n_heads", "kl"),
    [
        (rote.DistributionRefit(starts=1), {"d_model": 2}, 7, 0.161051),
        (rote.DistributionRefit(starts=1, epsilon=0.1), {"d_model": 2}, 5, 0.177178),
        (rote.DistributionRefit(starts=1), {"d_model": 2, "n_heads": 4}, 4, 0.202863),
        (rote.Interpolation(starts=1, epsilon=0.1), {"d_model": 2}, 5, 1.360110),
        (rote.DistributionRefit(starts=1, rank1_qk=True), {"d_model": 3}, 5, 0.067734),
    ],
)
def test_a_seed_gives_the_divergence_that_it_always_gave(
    table: DistributionTable, options: rote.Options, shape: dict[str, Any], n_heads: int, kl: float
) -> None:
    c = rote.build(table, options, **shape).certificate
    assert c.shape["n_heads"] == n_heads
    assert c["kl"] == pytest.approx(kl, rel=1e-3)
    assert c["kl"] >= c["encoder_kl"] - 1e-9
    assert c.bound == n_heads * c.shape["d_head"] + c.shape["d_model"] >= c["t_eps"]
    assert not c.bound_exceeded


def test_rank_one_maps_store_less(table: DistributionTable) -> None:
    full = rote.build(table, rote.DistributionRefit(starts=1), d_model=3, n_heads=5).certificate
    thin = rote.build(table, rote.DistributionRefit(starts=1, rank1_qk=True), d_model=3, n_heads=5).certificate
    assert full.stored_params == full.params == thin.params
    assert thin.stored_params == thin.params_by_convention["rank1_qk"] < full.stored_params


def test_what_is_left_out_costs_at_most_twice_epsilon_with_the_refit(table: DistributionTable) -> None:
    refit = rote.build(table, rote.DistributionRefit(starts=1, epsilon=0.1), d_model=2).certificate
    proof = rote.build(table, rote.Interpolation(starts=1, epsilon=0.1), d_model=2).certificate
    assert refit["leftover"] <= 0.1 and refit["t_eps"] < table.n_facts
    assert -1e-9 <= refit["gap"] <= 2 * 0.1
    # The proof alone may be worse than knowing nothing; each certificate tells what the other would have done.
    assert proof["kl"] > proof["uniform"] > refit["kl"]
    assert refit["interpolation_kl"] > refit["refit_kl"] and proof["interpolation_kl"] > proof["refit_kl"]
    assert refit["theorem_bound"] >= refit["interpolation_kl"] and refit["looseness"] > 1
    # With nothing left out there is nothing to compare.
    assert rote.build(table, REFIT, d_model=2, options={"starts": 1}).certificate["interpolation_kl"] is None


def test_heads_and_epsilon_settle_each_other(table: DistributionTable) -> None:
    given = settle(table, rote.Shape(n_heads=4, d_model=2), None)
    assert given.t_eps == capacity_of(table, given.arch) == 4 * 2 + 2
    assert table.t_eps(given.epsilon) == given.t_eps
    assert given.epsilon == pytest.approx(table.leftover(given.t_eps), abs=1e-8)
    planned = settle(table, rote.Shape(d_model=2), given.epsilon)
    assert (planned.t_eps, planned.arch.n_heads, planned.planned) == (given.t_eps, 4, True)
    assert epsilon_of(table, table.n_facts) == 0.0
    with pytest.raises(CapacityError, match=r"tells 10 contexts apart; use more heads, or epsilon = 0\.1336"):
        settle(table, rote.Shape(n_heads=4, d_model=2), 0.1)


@pytest.mark.parametrize(
    ("shape", "error", "words"),
    [
        ({}, UsageError, "give d_model"),
        ({"d_model": 3, "d_head": 4}, ShapeError, "wider"),
        ({"d_model": 10**9}, CapacityError, "more memory"),
    ],
)
def test_shapes_without_sense_are_refused(
    table: DistributionTable, shape: dict[str, int], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        rote.build(table, REFIT, **shape)  # type: ignore[arg-type]


def test_a_solve_that_is_too_large_is_refused_before_it_starts() -> None:
    many = random_distributions(LARGEST_SOLVE + 1, 2, 120, rng=RNG(0), alpha=0.0)
    with pytest.raises(CapacityError, match="the limit of the solve is 12,000"):
        settle(many, rote.Shape(d_model=3), 0.0)
    assert settle(many, rote.Shape(d_model=3), 0.5).t_eps < LARGEST_SOLVE


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 1.0}, "epsilon"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"smoothing": 1.5}, "smoothing"),
        ({"starts": 0}, "starts"),
        ({"kl": -1.0}, "from 0"),
        ({"kl": math.inf}, "from 0"),
    ],
)
@pytest.mark.parametrize("record", [rote.DistributionRefit, rote.Interpolation])
def test_options_without_sense_are_refused(record: type[rote.Options], options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        record(**options)


def test_zeros_are_smoothed_away_and_said() -> None:
    sure = lookup_distributions(10, 2, 6, rng=RNG(1), noise=0.0)
    construction = constructions.get(REFIT)
    ready = construction.prepare(sure, rote.DistributionRefit())
    assert ready.smoothing == DEFAULT_SMOOTHING and ready.full_support
    assert construction.prepare(sure, rote.DistributionRefit(smoothing=0.2)).smoothing == 0.2
    assert construction.prepare(ready, rote.DistributionRefit()) is ready
    with pytest.raises(UsageError, match="smoothed already"):
        construction.prepare(ready, rote.DistributionRefit(smoothing=0.3))
    with pytest.raises(rote.RoteError, match="smooth"):
        rote.build(sure, rote.DistributionRefit(smoothing=0.0), d_model=3)
    c = rote.build(sure, rote.DistributionRefit(starts=1), d_model=3).certificate
    assert c["smoothing"] == DEFAULT_SMOOTHING
    assert f"{sure.n_zeros} probabilities were 0" in c["smoothing_says"]
    full = random_distributions(10, 2, 6, rng=RNG(1))
    assert construction.prepare(full, rote.DistributionRefit()).smoothing == 0
    assert rote.build(full, rote.DistributionRefit(starts=1), d_model=3).certificate["smoothing_says"] is None


def test_shapes_for_a_divergence_reach_it(table: DistributionTable) -> None:
    options = rote.DistributionRefit(kl=0.12, starts=1)
    plans = shapes(table, options)
    best = plans[0]
    assert best.params == min(plan.params for plan in plans)
    assert best.measures["encoder_kl"] <= best.measures["kl"] <= 0.12 + 1e-6
    # One unit narrower cannot, whatever it does; one head fewer does not.
    narrower = limits(table, rote.Shape(d_model=best.architecture.d_model - 1), {"starts": 3})
    assert narrower is not None and narrower.to_dict()["encoder_kl"] > 0.12
    fewer = best.architecture.n_heads - 1
    with pytest.raises(CapacityError, match=r"no shape reaches 0\.12 nats"):
        shapes(table, options, d_model=best.architecture.d_model, n_heads=fewer)
    # What was planned is what is built.
    memory = rote.build(table, options)
    assert memory.model.arch == best.architecture
    assert memory.certificate["kl"] <= 0.12 + 1e-5


def test_a_draw_that_tells_nothing_apart_is_no_end_of_the_search(table: DistributionTable) -> None:
    """At width 1, which the best encoder allows, random heads are singular here; a wider shape is planned instead."""
    narrow = limits(table, rote.Shape(d_model=1), {"starts": 2})
    assert narrow is not None and narrow.to_dict()["encoder_kl"] < 0.25
    assert rote.plan(table, options={"kl": 0.25, "starts": 2})[0].architecture.d_model == 2


def test_limits_of_widths(table: DistributionTable) -> None:
    one = limits(table, rote.Shape(d_model=2), {"starts": 2})
    assert one is not None
    record = one.to_dict()
    assert 0 < record["encoder_kl"] < record["unigram"] < record["uniform"]
    assert record["encoder_kl_bits"] == pytest.approx(record["encoder_kl"] / math.log(2))
    assert record["theorem2"] is None or record["theorem2"] >= record["encoder_kl"]
    several = limits(table, rote.Shape(), {"starts": 1, "epsilon": 0.1})
    assert several is not None
    many = several.to_dict()
    divergences = [row["encoder_kl"] for row in many["widths"]]
    assert divergences == sorted(divergences, reverse=True) and divergences[-1] == 0
    assert many["t_eps"] == table.t_eps(0.1)
    for answer in (one, several):
        sheet = answer.sheet()
        assert len(repr(answer)) < 200
        assert any("unigram guess" in row[0] for row in sheet.grids[0].rows)


def test_wide_enough_is_exact() -> None:
    single = random_distributions(1, 2, 5, rng=RNG(0))
    assert rote.build(single, REFIT, d_model=2, options={"starts": 1}).certificate["kl"] < 1e-6
    small = random_distributions(9, 2, 4, rng=RNG(0))
    for d_model in (3, 5):
        c = rote.build(small, REFIT, d_model=d_model, options={"starts": 1}).certificate
        assert c["encoder_kl"] == 0 and c["kl"] < 1e-6
        assert c["encoder_exact"]


def test_contexts_of_one_token_need_no_theorem() -> None:
    table = random_distributions(6, 1, 6, rng=RNG(0), spread=1.5)
    c = rote.build(table, rote.DistributionRefit(starts=1), d_model=3).certificate
    assert c["report"]["method"] == "embedding"
    assert abs(c["kl"] - c["encoder_kl"]) < 1e-6 and not c.bound_exceeded


def test_the_proof_is_built_by_name_only(table: DistributionTable) -> None:
    assert rote.build(table, d_model=2, options={"starts": 1}).certificate.construction == REFIT
    assert not constructions.get(PROOF).automatic
    assert set(constructions.accepting("distributions")) == {REFIT, PROOF}
