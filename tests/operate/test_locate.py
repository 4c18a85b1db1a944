"""Where facts lie: the exact map of hashed tables, and what is measured elsewhere."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import rote
from rote.cli.main import run
from rote.constructions._hashed_editing import reads_of, table_in
from rote.data import random_facts, random_vectors
from rote.errors import CheckpointError, UnknownName, UsageError

TABLE = random_facts(600, 3, 20, rng=np.random.default_rng(7))


@pytest.fixture(scope="module", params=["bfloat16", "float32"])
def hashed(request: pytest.FixtureRequest) -> rote.Memory:
    return rote.build(TABLE, "hashed_table", dtype=request.param)


def _lost(memory: rote.Memory, name: str, place: object) -> set[int]:
    """Facts that are wrong with some weights at zero, by the model itself."""
    other = copy.deepcopy(memory.model)
    other.module.state_dict()[name][place] = 0
    with torch.no_grad():
        said = other.logits(torch.tensor(TABLE.contexts)).argmax(dim=1).numpy()
    return set(np.flatnonzero(said != TABLE.targets).tolist())


def test_the_map_of_a_hashed_table_is_exact(hashed: rote.Memory) -> None:
    location = hashed.locate(*TABLE.context_tokens(11), table=TABLE)
    assert location.exact and location == hashed.locate(fact=12, table=TABLE)
    row, *words = location.parts
    name, at = row.weights.split("[")[0], int(row.weights.rstrip("]").split(",")[1])
    assert row.needed == (11 in _lost(hashed, name, (slice(None), at)))
    assert 1 <= (row.readers or 0) < 600 and row.others_lost <= ((row.readers or 0) - 1) / 599
    assert words and all(word.weights.endswith(f", {at}]") for word in words)
    # All words that the fact reads together are the fact: with other values it is gone, and no other row notices.
    every = hashed.dependents(f"{name}[:, {at}]", table=TABLE)
    assert every.exact and every.n_readers == row.readers
    model, certificate = cast(Any, hashed.model), hashed.certificate
    rows = reads_of(model, table_in(model, certificate), TABLE.contexts).rows
    assert _lost(hashed, name, (slice(None), at)) <= set(np.flatnonzero(rows == at).tolist())
    for word in words:
        found = hashed.dependents(word.weights, table=TABLE)
        assert found.exact and found.n_readers == word.readers and found.n_lost <= (word.readers or 0)
        assert word.needed == (11 in _lost(hashed, name, (int(word.weights.split("[")[1].split(",")[0]), at)))


def test_facts_of_an_edit_lie_where_they_were_said_to_lie(hashed: rote.Memory) -> None:
    context = TABLE.context_tokens(3)
    row = hashed.locate(*context, table=TABLE).parts[0].weights
    answer = next(str(TABLE.vocabulary[int(t)]) for t in TABLE.targets if t != TABLE.targets[3])
    edited = hashed.edit(set={context: answer}, table=TABLE)
    name, at = row.split("[")[0], int(row.rstrip("]").split(",")[1])
    moved = torch.nonzero(hashed.module.state_dict()[name] != edited.module.state_dict()[name])
    assert set(moved[:, 1].tolist()) == {at}


@pytest.mark.parametrize("with_", ["dana2025_cor1", "argmax_fit", "mlp_fit", "stock_llama"])
def test_elsewhere_it_is_measured(with_: str) -> None:
    table = random_facts(60, 3, 20, rng=np.random.default_rng(1))
    memory = rote.build(table, with_)
    location = memory.locate(fact=5, table=table)
    assert not location.exact and "no weights of its own" in location.said
    assert location.parts and location.facts_run == 59
    part = location.parts[0]
    found = memory.dependents(part.weights, table=table)
    assert not found.exact and found.n_readers is None and found.facts_run == 60
    assert found.n_lost == round(part.others_lost * 59) + part.needed
    leads = [one.lead for one in location.parts if one.lead is not None]
    assert leads == sorted(leads, key=lambda lead: -abs(lead))


def test_exact_networks_have_no_parts() -> None:
    table = random_facts(24, 3, 12, rng=np.random.default_rng(0))
    memory = rote.build(table, rote.BitExtraction(with_positions=True))
    assert memory.locate(fact=1, table=table).parts == ()


def test_vectors_are_found_by_number() -> None:
    table = random_vectors(12, 4, 6, rng=np.random.default_rng(1), n_classes=3)
    memory = rote.build(table)
    assert len(memory.locate(fact=2, table=table).parts) == memory.model.arch.n_heads
    with pytest.raises(UsageError, match="vectors"):
        memory.locate("a", table=table)
    real = random_vectors(9, 4, 6, rng=np.random.default_rng(1))
    with pytest.raises(UsageError, match="one right answer"):
        rote.build(real, dtype="float64").locate(fact=1, table=real)


@pytest.mark.parametrize(
    ("weights", "error", "why"),
    [
        ("W_X[1]", UnknownName, "W_X"),
        ("W_E[99999]", UsageError, "lies outside"),
        ("W_E[0, 0, 0]", UsageError, "lies outside"),
        ("W_E[-1]", UsageError, "lies outside"),
        ("W_E[1:0]", UsageError, "lies outside"),
        ("W_E[", UsageError, "names no weights"),
        ("", UsageError, "names no weights"),
    ],
)
def test_weights_that_are_not_there(weights: str, error: type[Exception], why: str) -> None:
    memory = rote.build(random_facts(40, 2, 9, rng=np.random.default_rng(0)), "hashed_table")
    with pytest.raises(error, match=why):
        memory.dependents(weights, table=random_facts(40, 2, 9, rng=np.random.default_rng(0)))


def test_what_is_no_fact_is_nowhere(hashed: rote.Memory) -> None:
    known = {TABLE.context_tokens(i) for i in range(600)}
    tokens = [str(token) for token in TABLE.vocabulary]
    strange = next((a, b, c) for a in tokens for b in tokens for c in tokens if (a, b, c) not in known)
    for words, more, error, why in (
        (strange, {}, UsageError, "is no fact"),
        ((), {}, UsageError, "name one fact"),
        (TABLE.context_tokens(0), {"fact": 1}, UsageError, "name one fact"),
        ((), {"fact": 601}, UsageError, "from 1 to 600"),
        ((), {"fact": 0}, UsageError, "from 1 to 600"),
        (("nope",), {}, UnknownName, "nope"),
    ):
        with pytest.raises(error, match=why):
            hashed.locate(*words, table=TABLE, **more)
    with pytest.raises(CheckpointError, match="original table"):
        hashed.locate(fact=1, table=random_facts(600, 3, 20, rng=np.random.default_rng(8)))


def test_locate_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts, model = tmp_path / "facts.csv", tmp_path / "model"
    facts.write_text("a,b,c\n" + "".join(f"k{i},p{i % 3},v{i % 4}\n" for i in range(40)), encoding="utf-8")
    assert run(["build", str(facts), "-o", str(model), "--with", "hashed_table"]) == 0
    capsys.readouterr()
    assert run(["locate", str(model), "k5", "p2", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["exact"] and record["fact"] == "(k5, p2) -> v1"
    assert run(["locate", str(model), "--weights", record["parts"][1]["weights"]]) == 0
    assert "(k5, p2) -> v1" in capsys.readouterr().out
    assert run(["locate", str(model), "k5", "p2", "--weights", "W_E[0]"]) == 2
    assert run(["locate", str(model), "k5", "nope"]) == 2
