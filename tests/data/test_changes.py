"""Tables with facts replaced, inserted and taken out, and the file that lists it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rote
from rote.data import FactTable, random_facts
from rote.data.changes import FILE, Change, changes_file, read_changes
from rote.errors import CheckpointError, DataError, UnknownName, UsageError

RIVERS = FactTable.from_rows(
    [["Nile", "mouth"], ["Rhine", "mouth"], ["Rhine", "source"]], ["Mediterranean", "North Sea", "Alps"]
)


def _texts(table: rote.Table) -> list[str]:
    return [table.fact_text(i) for i in range(len(table))]


def test_changes_of_a_table() -> None:
    changed = (
        RIVERS.replace({("Rhine", "mouth"): "Atlantic"}).without(["Nile\tmouth"]).insert({"Po\tmouth": "Adriatic"})
    )
    assert _texts(changed) == ["(Rhine, mouth) -> Atlantic", "(Rhine, source) -> Alps", "(Po, mouth) -> Adriatic"]
    # Words stay where they are, new ones come behind them.
    assert changed.vocabulary.tokens[: RIVERS.vocab] == RIVERS.vocabulary.tokens
    assert changed.history is not None and changed.history.of == RIVERS.sha256
    assert [one.action for one in changed.history.changes] == ["set", "forget", "insert"]
    assert RIVERS.history is None and len(RIVERS) == 3


def test_changes_that_undo_each_other_give_the_same_table() -> None:
    there = RIVERS.replace({("Nile", "mouth"): "Alps"}).replace({("Nile", "mouth"): "Mediterranean"})
    assert there == RIVERS
    again = RIVERS.insert({("Nile", "source"): "Alps"}).without([("Nile", "source")])
    assert _texts(again) == _texts(RIVERS)


def test_one_change_after_the_other_or_all_at_once() -> None:
    table = random_facts(300, 3, 12, rng=np.random.default_rng(0))
    spoken = [table.context_tokens(i) for i in range(0, 60, 2)]
    changes = [Change("set", one, "t03") for one in spoken[:10]] + [Change("forget", one) for one in spoken[5:20]]
    changes += [Change("insert", one, "t04") for one in spoken[5:8]]
    step = table
    for change in changes:
        step = step.changed([change])
    whole = table.changed(changes)
    assert step == whole and step.history == whole.history
    plain = {table.context_tokens(i): str(table.vocabulary[int(table.targets[i])]) for i in range(len(table))}
    for change in changes:
        plain.pop(change.context) if change.action == "forget" else plain.update({change.context: str(change.answer)})
    assert {whole.context_tokens(i): whole.vocabulary[int(whole.targets[i])] for i in range(len(whole))} == plain


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (Change("set", ("Po", "mouth"), "Alps"), "no fact with this context"),
        (Change("forget", ("Rhine",)), "no fact with this context"),
        (Change("insert", ("Rhine", "mouth"), "Alps"), "is a fact already"),
        (Change("insert", ("Rhine",), "Alps"), "give all"),
        (Change("insert", ("a", "b", "c"), "Alps"), "at most 2 tokens"),
        (Change("insert", ("<pad>", "mouth"), "Alps"), "<pad>"),
        (Change("insert", ("Po", "mouth"), ""), "non-empty"),
    ],
)
def test_changes_that_cannot_be_made(change: Change, why: str) -> None:
    with pytest.raises(DataError, match=why):
        RIVERS.changed([change])


def test_the_last_fact_stays() -> None:
    with pytest.raises(DataError, match="none of the 3 facts would be left"):
        RIVERS.without([RIVERS.context_tokens(i) for i in range(3)])


def test_changes_are_checked() -> None:
    with pytest.raises(UnknownName):
        Change("delete", ("a",))
    with pytest.raises(DataError):
        Change("forget", ("a",), "b")
    with pytest.raises(DataError):
        Change("set", ("a",))
    with pytest.raises(DataError):
        Change("set", (), "b")
    vectors = rote.data.random_vectors(4, 2, 3, rng=np.random.default_rng(0)) if hasattr(rote, "data") else None
    if vectors is not None:
        with pytest.raises(UsageError, match="fact by fact"):
            vectors.without(["a"])


def test_padding_and_weights_survive() -> None:
    table = FactTable.from_rows([["new", "york"], ["rome"]], ["usa", "italy"], weights=[2.0, 0.5])
    changed = table.insert({("bern",): "switzerland"}).replace({("rome",): "usa"})
    assert changed.weights is not None and changed.weights.tolist() == [2.0, 0.5, 1.0]
    assert _texts(changed)[1:] == ["(rome) -> usa", "(bern) -> switzerland"]


def test_the_file_of_changes_comes_back(tmp_path: Path) -> None:
    table = RIVERS.replace({("Rhine", "mouth"): "line\u2028break"}).without([("Nile", "mouth")])
    assert read_changes(tmp_path) is None and changes_file(None) == {}
    content = table.files()[FILE]
    (tmp_path / FILE).write_bytes(content)
    assert read_changes(tmp_path) == table.history
    for broken in (b"", b"{}\n", b"[]\n", content + b'{"change": "drop", "context": ["a"]}\n', content + b"\xff\n"):
        (tmp_path / FILE).write_bytes(broken)
        with pytest.raises(CheckpointError, match=FILE):
            read_changes(tmp_path)
