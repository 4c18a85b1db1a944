"""What people type is cut into the tokens that the table was read into, character for character."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rote
from rote.data import PAD, FactTable
from rote.errors import RoteError, UnknownName, UsageError
from rote.models import Wording


def cut(question: str | list[str], vocabulary: list[str], context: int, tokens: str = "cells") -> list[str]:
    wording = Wording(tuple(vocabulary), tokens, context)  # type: ignore[arg-type]
    words = [question] if isinstance(question, str) else question
    return [vocabulary[i] for i in wording.encode(words) if vocabulary[i] != PAD]


@pytest.mark.parametrize("token", ["new york", "new  york", "new\u00a0york", "new\u3000york"])
def test_blanks_inside_a_token_count(token: str) -> None:
    words = ["city", "new  york", "new york", "new\u00a0york", "new\u3000york"]
    assert cut(f"{token} city", words, 2) == [token, "city"]
    assert cut(f"{token}\tcity", words, 2) == [token, "city"]
    assert cut([token, "city"], words, 2) == [token, "city"]


def test_another_blank_is_another_token() -> None:
    with pytest.raises(RoteError):
        cut("new\u00a0york city", ["new york", "city"], 2)


def test_words_are_joined_where_there_is_one_way() -> None:
    words = ["United States", "United", "capital", "of America"]
    assert cut("United States capital", words, 2) == ["United States", "capital"]
    assert cut(["United", "States", "capital"], words, 2) == ["United States", "capital"]


def test_two_ways_are_refused_and_tabs_settle_it() -> None:
    words = ["a", "a b", "b c", "c"]
    with pytest.raises(UsageError, match="more than one way"):
        cut("a b c", words, 2)
    assert cut("a\tb c", words, 2) == ["a", "b c"]
    assert cut("a b\tc", words, 2) == ["a b", "c"]


def test_a_whole_text_that_is_a_token_is_one() -> None:
    assert cut("a b", [PAD, "a", "b", "a b"], 2) == ["a b"]
    assert cut("a\tb", [PAD, "a", "b", "a b"], 2) == ["a", "b"]


def test_blanks_around_tokens_are_kept_where_they_belong() -> None:
    assert cut(" a\tb", [" a", "a", "b"], 2) == [" a", "b"]
    assert cut(" b \ta", [" a", "a", "b"], 2) == ["b", "a"]


def test_characters() -> None:
    letters = ["a", "b", " "]
    assert cut("a b", letters, 3, "chars") == ["a", " ", "b"]
    assert cut(["a", "b"], letters, 3, "chars") == ["a", " ", "b"]
    assert cut(["ab", "a"], ["a", "b"], 3, "chars") == ["a", "b", "a"]
    with pytest.raises(UsageError, match="in quotes"):
        cut(["a", "b"], [PAD, *letters], 3, "chars")


def test_no_text_takes_long() -> None:
    """Every way to cut such a text fails at its last letter; there are exponentially many."""
    words = ["a", "a a", "a a a", "b c"]
    for context in (45, 60, 20_000):
        text = " ".join("a" * context) + " z"
        started = time.process_time()
        with pytest.raises(RoteError):
            cut(text, words, context)
        assert time.process_time() - started < 5


@given(st.lists(st.sampled_from(["x", "x y", "y", "x  y", "y\u00a0x", "z"]), min_size=3, max_size=3))
def test_tabs_say_everything(parts: list[str]) -> None:
    words = ["x", "x y", "y", "x  y", "y\u00a0x", "z"]
    assert cut("\t".join(parts), words, 3) == parts
    try:
        assert cut(" ".join(parts), words, 3) == parts
    except UsageError as error:
        assert "more than one way" in str(error)


def test_asking_gives_the_fact_that_was_asked_for() -> None:
    keys = ["new york", "new  york", "new\u00a0york", "york"]
    table = FactTable.from_rows([[key] for key in keys], ["a", "b", "c", "d"])
    memory = rote.build(table, rng=0)
    assert [memory.ask(key)[0].token for key in keys] == ["a", "b", "c", "d"]
    with pytest.raises(UnknownName):
        memory.ask("new\tyork")


def test_an_empty_cell_is_no_token() -> None:
    with pytest.raises(UnknownName):
        cut(["new york", ""], ["new york", "new", "york"], 2)
    assert cut(["new york ", " new"], ["new york", "new", "york"], 2) == ["new york", "new"]


def test_a_refusal_stays_short() -> None:
    with pytest.raises(RoteError) as refusal:
        cut("a " * 100_000, ["a", "b"], 3)
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize(
    "question",
    [
        "what is the mouth of the Danube",
        "the Danube's mouth?",
        "Danube mouth",
        "In which sea is the mouth of the Danube?",
    ],
)
def test_a_sentence_that_names_a_key_and_a_property(question: str, rivers: rote.Memory) -> None:
    answer = rivers.ask(question, top=1)[0]
    assert (answer.token, answer.known) == ("Black Sea", True)
    assert rivers.encode([question]) == rivers.encode(["Danube", "mouth"])
    assert rivers.ask(*question.split(), top=1)[0].token == "Black Sea"


@pytest.mark.parametrize(
    "question", ["what is the mouth of it", "is the Nile in Africa", "the mouth of Nile or Danube"]
)
def test_a_sentence_that_tells_no_fact_is_refused(question: str, rivers: rote.Memory) -> None:
    with pytest.raises(RoteError):
        rivers.ask(question)
    # Words that are all tokens are taken as they stand.
    assert rivers.ask("mouth Danube", top=1)[0].known is False


@pytest.fixture(scope="module")
def rivers() -> rote.Memory:
    return rote.build(rote.read("docs/examples/rivers.csv"))
