"""References that never had some facts, and two models side by side."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import rote
from rote.cli.main import run
from rote.data import random_facts, random_vectors
from rote.errors import DataError, UsageError

TABLE = random_facts(600, 3, 30, rng=np.random.default_rng(1))
GONE = [TABLE.context_tokens(i) for i in range(120)]


@cache
def _hashed() -> rote.Memory:
    """Comparisons leave it as it is."""
    return rote.build(TABLE, "hashed_table")


@pytest.mark.parametrize("with_", ["hashed_table", "argmax_fit", "dana2025_cor1"])
def test_a_reference_never_had_the_facts(with_: str) -> None:
    memory = _hashed() if with_ == "hashed_table" else rote.build(TABLE, with_)
    other = memory.without(GONE, table=TABLE)
    assert other.certificate.facts == 480 and other.model.arch == memory.model.arch
    assert other.vocabulary == memory.vocabulary and other.certificate["reference"]["without"] == 120
    found = rote.compare(memory, other, TABLE)
    assert found.facts == 600 and found.gained == found.neither == 0
    assert found.kept >= 480 and 90 <= found.lost <= 120, "of 120 forgotten facts about 4 are said by chance"
    assert found.only_first == 120
    has, never = found.membership["first"], found.membership["second"]
    assert has.facts == 120 and has.by_answer > 0.9
    assert never.by_answer <= 2 * never.noise, "nobody can tell what was never there"
    assert found.weights is not None and found.weights["weights_changed"] > 0
    if with_ == "hashed_table":
        assert (found.bit_equal or 0) >= 480 and found.weights["weights_changed"] < 0.1 * found.weights["weights"]
        left = torch.tensor(TABLE.contexts[120:])
        assert torch.equal(memory.module(left), other.module(left))


def test_a_reference_does_not_depend_on_the_answers_it_never_had() -> None:
    other = TABLE.replace(dict.fromkeys(GONE, "t03"))
    hashed = [_hashed().without(GONE, table=TABLE), rote.build(other, "hashed_table").without(GONE, table=other)]
    fits = [
        rote.build(table, "argmax_fit", n_heads=64, d_model=16, d_head=8).without(GONE, table=table)
        for table in (TABLE, other)
    ]
    for one, two in (hashed, fits):
        assert one.certificate.weights_sha256 == two.certificate.weights_sha256


def test_an_edit_is_seen() -> None:
    memory = _hashed()
    context = TABLE.context_tokens(7)
    answer = next(str(TABLE.vocabulary[int(t)]) for t in TABLE.targets if t != TABLE.targets[7])
    edited = memory.edit(set={context: answer}, table=TABLE)
    found = rote.compare(memory, edited, TABLE)
    assert (found.kept, found.lost, found.gained, found.answers_changed, found.bit_equal) == (599, 1, 0, 1, 599)
    assert found.apart == (TABLE.fact_text(7),)
    back = rote.compare(edited, memory, TABLE)
    assert (back.lost, back.gained) == (0, 1)


def test_models_of_other_shapes_are_compared_by_what_they_say() -> None:
    small = random_facts(40, 2, 12, rng=np.random.default_rng(0))
    found = rote.compare(rote.build(small, "hashed_table"), rote.build(small, "dana2025_cor1"), small)
    assert found.kept == 40 and found.weights is None
    exact = rote.build(small, rote.BitExtraction(with_positions=True))
    plain = rote.compare(exact, rote.build(small, "hashed_table"), small)
    assert plain.kept == 40 and plain.bit_equal is None


def test_what_cannot_be_compared_is_refused() -> None:
    memory = _hashed()
    vectors = random_vectors(12, 4, 6, rng=np.random.default_rng(1), n_classes=3)
    with pytest.raises(UsageError, match="facts of tokens"):
        rote.compare(memory, memory, vectors)
    with pytest.raises(UsageError, match="vectors"):
        rote.compare(rote.build(vectors), memory, TABLE)
    with pytest.raises(UsageError, match="not at hand"):
        rote.compare(memory, memory)
    with pytest.raises(UsageError, match="name the facts"):
        memory.without([], table=TABLE)
    with pytest.raises(DataError, match="no fact with this context"):
        memory.without([("t00", "t00", "t00"), ("t01", "t01", "t01"), ("t02", "t02", "t02")], table=TABLE)
    drawn = rote.build(TABLE, "hashed_table", rng=np.random.default_rng(0))
    with pytest.raises(UsageError, match="not from a seed"):
        drawn.without(GONE, table=TABLE)


def test_references_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts, rows = tmp_path / "facts.csv", tmp_path / "rows.csv"
    TABLE.write(facts)
    TABLE.subset(np.arange(30)).write(rows)
    one, other = tmp_path / "one", tmp_path / "other"
    line = ["build", str(facts), "--with", "hashed_table", "-o"]
    assert run([*line, str(one)]) == 0 and run([*line, str(other), "--without", str(rows)]) == 0
    assert run(["verify", str(other)]) == 0
    capsys.readouterr()
    assert run(["compare", str(one), str(other), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["only_first"] == 30 and record["kept"] + record["lost"] == 600
    assert run(["compare", str(one), str(other)]) == 0
    assert "Membership advantage on the 30 facts that only" in " ".join(capsys.readouterr().out.split())
    rows.write_text("c1,c2,c3,target\nt00,nope,t01,t02\n", encoding="utf-8")
    assert run([*line, str(tmp_path / "no"), "--without", str(rows)]) == 2
    assert not (tmp_path / "no").exists()
    assert run(["compare", str(one), str(tmp_path / "none")]) == 2
