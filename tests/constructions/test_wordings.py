"""Wordings that follow from those given, and tokens that make other words of keys."""

from __future__ import annotations

import rote
from rote.constructions._keys import Forms, vocabulary_of
from rote.constructions._wordings import Nouns, Wording, resaid, unsaid
from rote.data.kinds.prompts import PromptTable


def table(*texts: str) -> tuple[PromptTable, list[Wording]]:
    made = rote.prompts([{"icao": "KJFK", "country": "France"}], template=texts[0], answer=" {country}")
    return made, [Wording(made, text, "icao") for text in texts]


def test_the_same_in_other_words() -> None:
    _, wordings = table("The airport {icao} is in", "The country of {icao} is")
    made = {one.text: of for one, of in resaid(wordings)}
    assert made["The airport {icao} is situated in"] == frozenset((0,))
    assert made["The nation of {icao} is"] == frozenset((1,))
    assert not set(made) & {one.text for one in wordings}
    assert all("{icao}" in text for text in made)


def test_synonyms_are_asked_for_and_other_sayings_are_not() -> None:
    _, wordings = table("The airport {icao} is in", "The country of {icao} is")
    nouns = Nouns.of(wordings, " {country}")
    assert {"country", "nation"} <= set(nouns.asked)
    others = unsaid(wordings)
    assert "was written by" in others
    assert "lies in" not in others


def test_a_field_is_no_word() -> None:
    made = rote.prompts([{"city": "Rome", "mayor": "Ann"}], template="{city} has the mayor", answer=" {mayor}")
    assert all("{city}" in one.text for one, _ in resaid([Wording(made, "{city} has the mayor", "city")]))


class Pieces:
    """As much of a tokenizer as names tokens."""

    names = ("ĠK", "JFK", "N", "ation", "QX", "!")

    def __len__(self) -> int:
        return len(self.names)

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.names[i] for i in ids]


def test_words_that_are_written_otherwise_than_keys_are_no_keys() -> None:
    """Behind a letter of keys, "QX" makes an unknown key and "ation" an ordinary word."""
    forms = Forms(ids=[(0, 1), (0, 2)], keys=[0, 1], own=[2, 2], given=[True, True])
    last = vocabulary_of(Pieces(), forms, spoken=[]).marks.last
    assert 4 in last
    assert 3 not in last
