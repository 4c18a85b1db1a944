"""Local heads: every fact has one head, which is blind to all others."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import rote
from rote.data import FactTable, random_facts
from rote.errors import CapacityError, UsageError

RIVERS = FactTable.from_rows(
    [("nile", "continent"), ("niger", "continent"), ("rhine", "continent"), ("nile", "mouth"), ("rhine", "mouth")],
    ["africa", "africa", "europe", "mediterranean", "north sea"],
)


def _scores(memory: rote.Memory, table: FactTable, without: int | None = None) -> torch.Tensor:
    module = copy.deepcopy(memory.module)
    if without is not None:
        module.state_dict()["W_O"][without] = 0
    with torch.no_grad():
        scores: torch.Tensor = module(torch.tensor(table.contexts))
    return scores


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", [(300, 2, 30), (40, 3, 60), (30, 6, 90)])
def test_without_a_head_its_facts_are_lost_and_no_other_logit_moves(
    sizes: tuple[int, int, int], dtype: str, separate: bool
) -> None:
    table = random_facts(*sizes, rng=np.random.default_rng(4))
    memory = rote.build(table, rote.LocalHeads(separate=separate), dtype=dtype)
    served = memory.certificate["report"]["served_by_head"]
    assert sorted(fact for facts in served for fact in facts) == list(range(len(table)))
    assert not separate or all(len(facts) == 1 for facts in served)
    whole = _scores(memory, table)
    for head in range(0, len(served), 7):
        scores = _scores(memory, table, head)
        moved = torch.nonzero((scores != whole).any(dim=1))[:, 0].tolist()
        assert moved == sorted(served[head]), "its own facts notice, all others have the same logits, bit by bit"
        right = scores[torch.arange(len(table)), torch.tensor(table.targets)]
        tied = scores[served[head]] >= right[served[head], None]
        assert (tied.sum(dim=1) > 1).all(), "what it served has no lead any more"


def test_facts_with_one_answer_share_a_head_and_locate_says_so() -> None:
    memory = rote.build(RIVERS, "local_heads")
    assert memory.certificate.shape["n_heads"] == 4
    location = memory.locate("nile", "continent", table=RIVERS)
    (part,) = location.parts
    assert location.exact and part.readers == 2 and part.needed and part.others_lost == 1 / 4
    found = memory.dependents(part.weights, table=RIVERS)
    assert found.exact and found.n_readers == found.n_lost == 2
    assert set(found.facts) == {"(nile, continent) -> africa", "(niger, continent) -> africa"}
    assert not memory.dependents("W_Q[0]", table=RIVERS).exact, "without its map a head looks anywhere"
    with pytest.raises(CapacityError, match="1 other facts with the same answer"):
        memory.edit(set={("nile", "continent"): "europe"}, table=RIVERS)
    alone = memory.edit(set={("nile", "mouth"): "north sea"}, table=RIVERS)
    assert alone.ask("nile", "mouth", top=1)[0].token == "north sea"


def test_a_fact_with_a_head_of_its_own_is_one_weight() -> None:
    memory = rote.build(RIVERS, rote.LocalHeads(separate=True))
    assert memory.certificate.shape["n_heads"] == 5
    edited = memory.edit(set={("nile", "continent"): "europe"}, forget=[("rhine", "mouth")], table=RIVERS)
    record = edited.certificate["edited"]
    assert record["weights_changed"] == 2 and record["bit_equal"] == record["other_facts"] == 3
    assert edited.ask("nile", "continent", top=1)[0].token == "europe"
    for answer in ("africa", "europe"):
        other = memory.edit(set={("rhine", "mouth"): answer}, table=RIVERS).edit(
            forget=[("rhine", "mouth")], table=RIVERS
        )
        gone = memory.edit(forget=[("rhine", "mouth")], table=RIVERS)
        assert other.certificate.weights_sha256 == gone.certificate.weights_sha256, "the answer has left no trace"
    with pytest.raises(UsageError, match="no answer of this model"):
        memory.edit(set={("nile", "mouth"): "nile"}, table=RIVERS)


def test_what_two_tokens_do_not_tell_apart_is_refused() -> None:
    table = FactTable.from_rows(
        [(a, b, "v") for a in "ab" for b in "cd"], ["one", "two", "three", "four"], name="square"
    )
    with pytest.raises(CapacityError, match=r"a head sees two tokens.*hashed_table"):
        rote.build(table, "local_heads")
    same = FactTable.from_rows([(a, b, "v") for a in "ab" for b in "cd"], ["one", "one", "two", "two"])
    assert rote.build(same, "local_heads").certificate.shape["n_heads"] == 2
    with pytest.raises(CapacityError, match="use float64"):
        rote.build(random_facts(1500, 2, 1400, rng=np.random.default_rng(1)), "local_heads")
