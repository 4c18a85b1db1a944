"""Questions about a property of a key, in the words of a person."""

from __future__ import annotations

import pytest

from rote.errors import RoteError, UsageError
from rote.models import Wording

CODES = ("<pad>", *"0123456789ABCDEF", "LATIN", "Lu", "category", "name", "short name")
SPELLED = Wording(CODES, "chars", 5, ("name", "category", "short name"))
TOWNS = ("New York", "Rome", "USA", "Italy", "country", "mayor", "Ann")
WHOLE = Wording(TOWNS, "cells", 2, ("country", "mayor"))
WORDS = Wording(
    ("<pad>", "new", "york", "rome", "usa", "italy", "the country", "mayor"), "words", 3, ("the country", "mayor")
)


def parts(wording: Wording, *question: str) -> list[str]:
    return [wording.vocabulary[i] for i in wording.encode(question) if i != wording.pad_id]


@pytest.mark.parametrize(
    "question",
    [
        ("0041", "name"),
        ("0041 name",),
        ("0041\tname",),
        ("name of 0041",),
        ("what is the name of 0041?",),
        ("What is 0041's NAME, please?",),
        ("name 0041",),
        ("which name does '0041' have",),
        ("tell me the name: 0041.",),
    ],
)
def test_the_same_question_in_many_words(question: tuple[str, ...]) -> None:
    assert parts(SPELLED, *question) == ["0", "0", "4", "1", "name"]


def test_the_longer_of_two_properties_is_meant() -> None:
    assert parts(SPELLED, "what is the short name of 41") == ["4", "1", "short name"]
    assert parts(SPELLED, "41 short name") == ["4", "1", "short name"]


def test_keys_of_several_words() -> None:
    assert parts(WHOLE, "who is the mayor of New York?") == ["New York", "mayor"]
    assert parts(WHOLE, "New York", "country") == ["New York", "country"]
    assert parts(WORDS, "what is the country of new york") == ["new", "york", "the country"]
    assert parts(WORDS, "rome\tmayor") == ["rome", "mayor"]


@pytest.mark.parametrize(
    ("wording", "question", "said"),
    [
        (SPELLED, "what is 0041", "names none of them"),
        (SPELLED, "name", "no key can be told"),
        (SPELLED, "name of zebra", "no key can be told"),
        (SPELLED, "name or category of 0041", "'name of 0041' or 'category of 0041'"),
        (SPELLED, "name of 0041 and 0042", "can be understood as"),
        (SPELLED, "name of 00414", "no key can be told"),
        (WHOLE, "the mayor of New York or Rome", "can be understood as"),
    ],
)
def test_unclear_questions_get_a_sentence(wording: Wording, question: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parts(wording, question)


def test_a_key_that_is_also_a_word_that_fills() -> None:
    islands = Wording(("<pad>", "is", "it", "Iceland", "name", "capital"), "cells", 2, ("name", "capital"))
    assert parts(islands, "is", "name") == ["is", "name"]
    assert parts(islands, "name of 'is'") == ["is", "name"]
    assert parts(islands, "name of is") == ["is", "name"]
    with pytest.raises(UsageError, match="can be understood"):
        parts(islands, "what is the name of it")


def test_text_and_back() -> None:
    for wording, context in (
        (SPELLED, ["4", "1", "short name"]),
        (WHOLE, ["Rome", "mayor"]),
        (WORDS, ["rome", "the country"]),
    ):
        ids = wording.encode([wording.text([wording.vocabulary.index(token) for token in context])])
        assert [wording.vocabulary[i] for i in ids if i != wording.pad_id] == context


def test_hostile_questions_end() -> None:
    for text in ("name " * 5000, "0 " * 3000 + "name", '"' * 999 + "name", "name\t\t\t", " \tname of\n"):
        with pytest.raises(RoteError):
            parts(SPELLED, text)
