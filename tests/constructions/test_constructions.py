"""Every construction keeps the promises of the interface; plain copies of what breaks them do not."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pytest

from rote import constructions
from rote.config import Architecture, Shape
from rote.constructions import Construction, Job, Options, Plan
from rote.constructions.argmax_fit import ArgmaxFit
from rote.data import FactTable, VectorTable, random_facts
from rote.errors import CapacityError, FactsLost
from rote.models import Model
from rote.pipeline import build, build_at
from rote.testing.constructions import check_construction, check_options


@pytest.mark.parametrize("key", sorted(constructions.registry()))
def test_contract(key: str) -> None:
    check_construction(constructions.get(key))


def test_the_registry_knows_who_takes_what() -> None:
    assert set(constructions.accepting("vectors")) == {
        "kajitsuka2025_next_token",
        "mahdavi2024_thm1",
        "mahdavi_random_features",
    }
    assert set(constructions.accepting("facts", native="exact")) == {"kajitsuka2025_next_token"}
    assert "argmax_fit" in constructions.accepting("facts", native="float32")
    assert not constructions.accepting("songs")


def test_what_bit_extraction_says_of_itself() -> None:
    bits = constructions.get("kajitsuka2025_next_token")
    assert bits.told == ("variant", "with_positions", "unknown", "delta", "radius")
    assert (bits.formats("exact"), bits.formats("float32")) == (("exact",), ("float32", "exact"))
    assert (bits.automatic, constructions.get("kajitsuka2025_seq2seq").automatic) == (False, True)


@dataclass(frozen=True)
class _Nothing(Options):
    """Nothing to tell."""


class _Forgetful(Construction[FactTable, _Nothing]):
    """The argmax fit of a friend, who loses all in small shapes and says so."""

    accepts = ("facts",)
    Options = _Nothing
    title = "Forgetful"
    exact = False

    def shapes(self, table: FactTable, shape: Shape, dtype: Any, options: Any) -> Any:
        for heads in (2, 16):
            arch = Architecture(heads, 8, 8, table.context, table.vocab)
            yield Plan(self.key, arch, arch.params(), 4 * arch.params(), table.n_facts)

    def build(self, job: Job[FactTable, _Nothing]) -> Model:
        if job.arch.n_heads < 16:
            raise FactsLost("lost all of them")
        friend = constructions.get("argmax_fit")
        return friend.build(Job(job.table, job.arch, ArgmaxFit(), job.dtype, job.rng))


def test_a_build_that_says_it_lost_facts_goes_on_with_a_larger_shape() -> None:
    constructions.register("forgetful_for_this_test", _Forgetful())
    try:
        table = random_facts(40, 3, 12, rng=np.random.default_rng(0))
        memory = build(table, "forgetful_for_this_test")
        assert memory.certificate.shape["n_heads"] == 16
        with pytest.raises(AssertionError, match="brings examples"):
            check_construction(constructions.get("forgetful_for_this_test"))
    finally:
        constructions._constructions._added.pop("forgetful_for_this_test")


class _Mute(_Forgetful):
    Options = Options  # type: ignore[assignment]


def test_the_contract_can_fail() -> None:
    mute = _Mute()
    mute.key = "mute"
    with pytest.raises(AssertionError, match="record of its own"):
        check_options(mute)


def test_a_large_exact_solve_is_refused_with_what_to_do() -> None:
    table = random_facts(12_001, 3, 40, rng=np.random.default_rng(0))
    with pytest.raises(CapacityError, match="use argmax_fit"):
        build(table, "dana2025_cor1")


def test_one_shape_exactly() -> None:
    table = random_facts(30, 3, 12, rng=np.random.default_rng(0))
    arch = Architecture(16, 8, 8, 3, 12)
    memory = build_at(constructions.get("argmax_fit"), table, arch, ArgmaxFit(rank1_qk=True), rng=1)
    assert memory.certificate.shape == arch.to_dict()
    assert memory.certificate.options == {"rank1_qk": True}
    assert memory.certificate.stored_params < memory.certificate.params
    lossy = build_at(constructions.get("argmax_fit"), table, arch.replace(n_heads=1, d_head=1), rng=1)
    assert 0 < lossy.certificate.recall["float32"] < 1


def test_refusals_say_what_the_check_finds() -> None:
    table = random_facts(9, 1, 9, rng=np.random.default_rng(0))
    with pytest.raises(CapacityError, match="contexts of one token"):
        build_at(constructions.get("dana2025_cor1"), table, Architecture(6, 2, 2, 1, 9))


def test_one_token_is_a_code_of_its_answer() -> None:
    """Two numbers for a token and two for an answer will do, and no stock checkpoint is smaller."""
    table = random_facts(200, 1, 200, rng=np.random.default_rng(0))
    memory = build(table)
    assert memory.certificate.passed and memory.certificate.construction == "argmax_fit"
    assert memory.certificate.params <= 2 * 4 * 200
    assert memory.certificate.bound is None or memory.certificate.bound >= table.n_facts


def test_answers_are_the_facts() -> None:
    table = random_facts(40, 3, 12, rng=np.random.default_rng(0))
    memory = build(table)
    for i in range(5):
        answer = memory.ask(*table.context_tokens(i), top=1)[0].token
        assert answer == table.vocabulary.tokens[table.targets[i]]


@pytest.mark.parametrize("targets", [np.array([0.7]), np.array([1])])
def test_one_example_of_one_shared_vector_is_held(targets: np.ndarray[Any, Any]) -> None:
    rng = np.random.default_rng(0)
    classes = 2 if targets.dtype.kind == "i" else None
    table = VectorTable(rng.standard_normal((1, 8)), rng.standard_normal((1, 8)), targets, classes)
    assert build(table, "mahdavi_random_features").certificate.passed


def test_tables_of_a_few_thousand_facts_are_tried_with_a_few_wide_heads() -> None:
    """Far smaller than what random answers would need, which is where plans begin: tables with structure get by."""
    argmax = constructions.registry()["argmax_fit"]
    table = random_facts(1500, 4, 60, rng=np.random.default_rng(0))
    tried = argmax.shapes(table, Shape(), "float32", argmax.Options())
    shapes = [(one.architecture.n_heads, one.architecture.d_model, one.params) for one in islice(tried, 6)]
    assert [one[:2] for one in shapes] == [(8, 8), (16, 8), (8, 12), (32, 8), (16, 12), (32, 12)]
    assert [one[2] for one in shapes] == sorted(one[2] for one in shapes)
