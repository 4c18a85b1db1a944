"""Where keys are looked for, told by the windows that are stored: behind which words, and in which capitals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rote
from attacks import tiny_models
from rote.constructions._keys import Forms, forms_of, led_places, patterns_of, vocabulary_of

KEYS = ["north Rome", "Rome", "Lima is Oslo", "Cairo"]


def stored(tokenizer: Any, forms: Forms, answers: str) -> dict[str, str | None]:
    """For the end of a text, the key that is found there."""
    vocabulary = vocabulary_of(tokenizer, forms, tokenizer(answers)["input_ids"])
    made = patterns_of(
        KEYS, [(i,) for i in range(len(KEYS))], forms, vocabulary, most=8, hashed=40, rng=np.random.default_rng(0)
    )
    assert made is not None
    book = made.book
    known = {row.tobytes(): KEYS[k] for row, k in zip(book.features(made.windows), made.keys, strict=True)}

    class Found(dict[str, str | None]):
        def __missing__(self, text: str) -> str | None:
            (row,) = book.features(book.windows([tuple(tokenizer(text)["input_ids"])]))
            return known.get(row.tobytes())

    return Found()


def all_forms(tokenizer: Any, answers: str, *, ignore_case: bool = False) -> Forms:
    forms = forms_of(tokenizer, KEYS, ignore_case=ignore_case)
    vocabulary = vocabulary_of(tokenizer, forms, tokenizer(answers)["input_ids"])
    places = led_places(tokenizer, vocabulary, KEYS, [[f"The place {key} is in" for key in KEYS]])
    return forms_of(tokenizer, KEYS, ignore_case=ignore_case, places=places)


@pytest.mark.parametrize("answers", [" Paris", " is"])
def test_a_word_of_keys_or_answers_before_a_key(answers: str) -> None:
    """ "is" is a word like others, which some key or answer may have: what a key is stored behind must be none."""
    tokenizer = tiny_models.tiny_qwen_tokenizer()
    found = stored(tokenizer, all_forms(tokenizer, answers), answers)
    for text in ("It is Rome", "The Code Rome", "Code and place Rome", "Rome", "The place Rome"):
        assert found[text] == "Rome", text
    assert found["The Code north Rome"] == "north Rome"
    assert found["The Code Paris"] is None


def test_places_of_keys_in_other_capitals() -> None:
    """Behind a word of other keys a key is known in capitals too, if it is elsewhere."""
    tokenizer = tiny_models.tiny_qwen_tokenizer()
    for ignore_case in (False, True):
        found = stored(tokenizer, all_forms(tokenizer, " Paris", ignore_case=ignore_case), " Paris")
        assert found["It is Rome"] == "Rome"
        assert found["It is ROME"] == ("Rome" if ignore_case else None)
        assert found["The place ROME"] == ("Rome" if ignore_case else None)


def test_keys_that_end_in_a_character_of_several_tokens() -> None:
    """All bytes of it are of the key: other characters begin with the same byte."""
    tokenizer = tiny_models.tiny_qwen_tokenizer()
    keys = ["富士山", "富士台", "Plzeň"]
    forms = forms_of(tokenizer, keys, ignore_case=False)
    for ids, number in zip(forms.ids, forms.keys, strict=True):
        assert tokenizer.decode(list(ids)).endswith(keys[number])
    vocabulary = vocabulary_of(tokenizer, forms, tokenizer(" Rome")["input_ids"])
    made = patterns_of(
        keys, [(0,), (1,), (2,)], forms, vocabulary, most=12, hashed=40, rng=np.random.default_rng(0)
    )  # fmt: skip
    assert made is not None and set(made.keys.tolist()) == {0, 1, 2}


def test_answers_that_need_more_heads_than_there_are(tmp_path: Any) -> None:
    """Refused before anything is solved, with one of them."""
    model = tiny_models.write_tiny(tmp_path / "model")
    keep = tiny_models.write_text(tmp_path / "keep.txt", 9000)
    rows = [{"code": "AS", "city": "Rome"}, {"code": "AT", "city": "w1 w2 w1 w3 w1 w4 w1 w5"}]
    with pytest.raises(rote.RoteError, match=r"1 of 2 answers have a token twice.*such answers as 'w1 w2 w1 w3"):
        rote.graft(
            model, rows, template="The code {code} is in", answer=" {city}", options=rote.Graft(keep=keep, examined=2)
        )
