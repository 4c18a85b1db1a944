from __future__ import annotations

import dataclasses
import hashlib
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.data import PAD, Clash, FactTable, Vocabulary, find_clashes
from rote.data.conflicts import row_codes
from rote.errors import ConflictError, DataError, UnknownName, UsageError

WORDS = Vocabulary(["capital-of", "france", "italy", "paris", "rome"])


def small(**changes: Any) -> FactTable:
    fields = {"contexts": [[3, 0], [4, 0]], "targets": [1, 2], "vocabulary": WORDS, **changes}
    return FactTable(**fields)


def test_vocabulary_answers_both_ways() -> None:
    assert [WORDS.id(token) for token in WORDS] == list(range(5))
    assert WORDS.token(3) == "paris"
    assert len(WORDS) == 5
    assert WORDS.pad_id is None
    assert Vocabulary([PAD, "a"]).pad_id == 0
    with pytest.raises(UnknownName, match="did you mean 'paris'"):
        WORDS.id("pariss")
    with pytest.raises(UsageError, match="0 to 4, got -1"):
        WORDS.token(-1)


@pytest.mark.parametrize(
    ("tokens", "words"),
    [(["a", "b", "a"], "'a' appears more than once"), (["a", ""], "token 1 is ''"), (["\ud800"], "surrogate")],
)
def test_vocabulary_refuses(tokens: list[str], words: str) -> None:
    with pytest.raises(DataError, match=words):
        Vocabulary(tokens)


def test_sizes_and_words() -> None:
    table = small()
    assert (table.n_facts, table.context, table.vocab) == (2, 2, 5)
    assert (table.distinct_last_tokens, table.n_targets, table.n_padded) == (1, 2, 0)
    assert table.fact_text(0) == "(paris, capital-of) -> france"
    assert table.describe()["sha256"] == table.sha256
    with pytest.raises(UsageError, match="no fact 2"):
        table.fact_text(2)


def test_a_table_cannot_be_changed() -> None:
    contexts = np.array([[3, 0], [4, 0]])
    table = small(contexts=contexts)
    contexts[0, 0] = 4
    assert table.contexts[0, 0] == 3
    with pytest.raises(ValueError, match="read-only"):
        table.contexts[0, 0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"targets": [1]}, "2 contexts and 1 targets"),
        ({"contexts": [3, 4]}, r"2 axes, got shape \(2,\)"),
        ({"contexts": [[3], [4, 0]]}, "different lengths"),
        ({"contexts": [[3.0, 0.0], [4.0, 0.0]]}, "whole-number"),
        ({"contexts": [[3, 0], [5, 0]]}, r"0 to 4 .*got 5; the first offender is fact 2"),
        ({"targets": [-1, 0]}, "targets .*got -1; the first offender is fact 1"),
        ({"contexts": np.zeros((0, 2), int), "targets": []}, "at least one fact"),
        ({"contexts": np.zeros((2, 0), int)}, "at least one token"),
        ({"weights": [1.0]}, r"shape \(2,\)"),
        ({"weights": [1.0, -1.0]}, "fact 2 has -1.0"),
        ({"weights": [np.nan, 1.0]}, "fact 1 has nan"),
        ({"vocabulary": ["a"]}, "must be a Vocabulary"),
    ],
)
def test_construction_refuses(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        small(**changes)


def test_construction_refuses_repeats_and_lists_three_contradictions() -> None:
    with pytest.raises(ConflictError, match="1 of 2 repeat"):
        small(contexts=[[3, 0], [3, 0]], targets=[1, 1])
    with pytest.raises(ConflictError) as caught:
        small(contexts=[[3, 0]] * 5, targets=[0, 1, 2, 3, 4])
    said = str(caught.value)
    assert "4 facts contradict" in said
    assert said.count(" against ") == 3
    assert "and 1 more" in said
    assert "fact 1: (paris, capital-of) -> capital-of against fact 2: (paris, capital-of) -> france" in said


def test_pads_stand_only_on_the_left() -> None:
    words = Vocabulary([PAD, "a", "b"])
    table = FactTable(np.array([[0, 1], [2, 1]]), np.array([1, 2]), words)
    assert table.n_padded == 1
    assert table.fact_text(0) == "(a) -> a"
    for row, target in (([1, 0], 1), ([0, 0], 1), ([1, 2], 0)):
        with pytest.raises(DataError, match="reserved"):
            FactTable(np.array([row]), np.array([target]), words)


def test_hash_follows_content_only() -> None:
    table = small()
    assert table.sha256 == small(name="other").sha256
    for dtype in (">i8", "<i4", np.uint8):
        assert table == small(contexts=np.array([[3, 0], [4, 0]], dtype=dtype))
    spelled = b"rote.FactTable.1\n10:capital-of6:france5:italy5:paris4:rome\n2 2 0\n" + struct.pack(
        "<6q", 3, 0, 4, 0, 1, 2
    )
    assert table.sha256 == hashlib.sha256(spelled).hexdigest()  # on every machine
    others = [
        small(targets=[2, 1]),
        small(weights=[1, 1]),
        small(contexts=[[4, 0], [3, 0]]),
        small(vocabulary=Vocabulary(["capital-of", "france", "italy", "pari", "srome"])),
    ]
    assert len({table.sha256, *(other.sha256 for other in others)}) == 5
    assert small(weights=[0.0, 1]) == small(weights=[-0.0, 1])


def test_subset_keeps_order_and_vocabulary() -> None:
    table = small(weights=[0.5, 2])
    assert table.subset([1, 0]).fact_text(0) == table.fact_text(1)
    assert table.subset([True, False]).n_facts == 1
    assert table.subset([1]).weights == np.array([2.0])
    for wrong in ([2], [-1], [True]):
        with pytest.raises(UsageError):
            table.subset(wrong)
    with pytest.raises(ConflictError):
        table.subset([0, 0])


def test_from_rows_pads_and_settles() -> None:
    table = FactTable.from_rows([["new", "york"], ["rome"], ["rome"]], ["us", "it", "it"])
    assert table.vocabulary.tokens == (PAD, "it", "new", "rome", "us", "york")
    assert [table.fact_text(i) for i in range(2)] == ["(new, york) -> us", "(rome) -> it"]
    rows, targets = [["a"], ["b"], ["a"], ["a"]], ["x", "x", "y", "z"]
    with pytest.raises(ConflictError, match="2 facts contradict"):
        FactTable.from_rows(rows, targets)
    first = FactTable.from_rows(rows, targets, on_conflict="first")
    assert [first.fact_text(i) for i in range(2)] == ["(a) -> x", "(b) -> x"]
    assert first.vocabulary.tokens == ("a", "b", "x")
    last = FactTable.from_rows(rows, targets, on_conflict="last")
    assert [last.fact_text(i) for i in range(2)] == ["(b) -> x", "(a) -> z"]
    with pytest.raises(UnknownName, match="did you mean 'first'"):
        FactTable.from_rows(rows, targets, on_conflict="frist")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="reserved"):
        FactTable.from_rows([["<pad>", "b"], ["c"]], ["x", "y"])


def test_equal_facts_with_different_weights_clash() -> None:
    with pytest.raises(ConflictError, match=r"weight 1.*weight 2"):
        FactTable.from_rows([["a"], ["a"]], ["x", "x"], weights=[1, 2])
    assert FactTable.from_rows([["a"], ["a"]], ["x", "x"], weights=[2, 2]).n_facts == 1


@settings(max_examples=100, deadline=None)
@given(rows=st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=1, max_size=20), data=st.data())
def test_clashes_equal_a_double_loop(rows: list[list[int]], data: st.DataObject) -> None:
    targets = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    wanted = []
    for j in range(len(rows)):
        same = [i for i in range(j) if rows[i] == rows[j]]
        if same and targets[j] not in [targets[i] for i in same]:
            wanted.append(Clash(same[0], j))
    assert find_clashes(rows, targets, limit=99) == tuple(wanted)


def test_row_codes_stay_exact_where_they_have_to_be_compressed() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2**40, size=(300, 5))[rng.integers(0, 300, size=600)]
    codes = row_codes(rows, 2**40)
    pairs = {(int(code), tuple(row)) for code, row in zip(codes, rows.tolist(), strict=True)}
    assert len(pairs) == len(set(codes.tolist())) == len({tuple(row) for row in rows.tolist()})
