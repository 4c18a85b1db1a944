"""Wordings that follow from those given, and tokens that make other words of keys."""

from __future__ import annotations

from typing import Any

import numpy as np

import rote
from rote.constructions._keys import Forms, going_on, vocabulary_of
from rote.constructions._wordings import Nouns, Wording, crossed, resaid, said_of, swapped
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
    same = {words for one in said_of(wordings, nouns) for words in one.says}
    assert "lies in" in same
    assert "was written by" not in same


def test_who_asks_for_a_noun_asks_for_what_says_it() -> None:
    made = rote.prompts([{"title": "Dune", "author": "Ann"}], template="The author of {title} is", answer=" {author}")
    wordings = [Wording(made, "The author of {title} is", "title")]
    ((saying, of),) = said_of(wordings, Nouns.of(wordings, " {author}")).items()
    assert "was written by" in saying.says
    assert of == frozenset((0,))


def test_a_word_that_only_one_wording_has_is_not_what_is_asked_for() -> None:
    texts = ("The country of {icao} is", "The nation of {icao} is", "Behind the fence of {icao} begins")
    assert set(Nouns.of(table(*texts)[1], " {country}").asked) == {"country", "nation"}
    assert "fence" in Nouns.of(table(*texts[2:])[1], " {land}").asked


def test_ends_that_ask_nothing_by_themselves_are_put_behind_no_other_beginning() -> None:
    texts = ("The country of {icao} is", "We flew to {icao}, which lies in", "Airport {icao} is an airport in")
    made = {one.text for one, _ in crossed(table(*texts)[1], np.random.default_rng(0))}
    assert made == {"We flew to {icao} is an airport in", "Airport {icao}, which lies in"}


def test_a_field_is_no_word() -> None:
    made = rote.prompts([{"city": "Rome", "mayor": "Ann"}], template="{city} has the mayor", answer=" {mayor}")
    assert all("{city}" in one.text for one, _ in resaid([Wording(made, "{city} has the mayor", "city")]))


class Pieces:
    """As much of a tokenizer as names tokens."""

    names = ("ĠK", "JFK", "N", "ation", "QX", "!", "PX")

    def __len__(self) -> int:
        return len(self.names)

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.names[i] for i in ids]

    def __call__(self, texts: list[str], **_: bool) -> dict[str, Any]:
        """Texts whose tokens are parted by bars, which count for nothing."""
        coded: dict[str, Any] = {"input_ids": [], "offset_mapping": []}
        for text in texts:
            parts = text.split("|")
            begins = [len("|".join(parts[:i])) + bool(i) for i in range(len(parts))]
            coded["input_ids"].append([self.names.index(part) for part in parts])
            spans = zip(begins, parts, strict=True)
            coded["offset_mapping"].append([(begin, begin + len(part)) for begin, part in spans])
        return coded


def test_words_that_are_written_otherwise_than_keys_are_no_keys() -> None:
    """Behind a letter of keys, "QX" makes an unknown key and "ation" an ordinary word."""
    forms = Forms(ids=[(0, 1), (0, 2)], keys=[0, 1], own=[2, 2], given=[True, True])
    last = vocabulary_of(Pieces(), forms, spoken=[]).marks.last
    assert 4 in last
    assert 3 not in last


def test_what_goes_on_with_a_key_makes_another_word_unless_a_wording_has_it_there() -> None:
    forms = Forms(ids=[(0, 1), (0, 2)], keys=[0, 1], own=[2, 2], given=[True, True])
    vocabulary = vocabulary_of(Pieces(), forms, spoken=[6])
    assert going_on(Pieces(), vocabulary, [("ĠK|JFK|!", "ĠK|JFK")]) == [1, 2, 4]
    # Behind "ĠK", which keys have, "QX" is a wording's own word; behind "!" it would be no word of keys in any case.
    assert going_on(Pieces(), vocabulary, [("ĠK|JFK|ĠK|QX", "ĠK|JFK")]) == [1, 2]
    assert going_on(Pieces(), vocabulary, [("ĠK|JFK|!|QX", "ĠK|JFK")]) == [1, 2, 4]


def test_another_noun_stands_where_a_wording_names_what_it_asks_for() -> None:
    _, wordings = table("The country of {icao} is", "Airport: {icao}\nCountry:", "{icao} lies in")
    made = swapped(wordings, Nouns.of(wordings, " {country}"))
    assert made == ["The {a} of {} is", "Airport: {}\n{A}:"]
