"""Wordings of a question: as given, and what follows from them by rule, for a gate to be fitted on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rote.constructions._questions import FRAMES, WRAPPERS
from rote.constructions._relations import SAYINGS, SYNONYMS, Saying
from rote.data.kinds.prompts import PromptTable, fields_of
from rote.errors import DataError

__all__ = ["Nouns", "Wording", "crossed", "framed", "resaid", "said_of", "spliced", "swapped", "wrapped"]

_CROSSED = 120
_ASKED = (
    r"\b[Tt]he ((?:[a-z]+ )?[a-z]+) of (?:the [\w ]{0,20})?KEY",
    r"\n([A-Z][a-z]+(?: [a-z]+)?):$",
    r"\b(?:[Ww]hich|[Ww]hat) ([a-z]+) (?:is|does|has|are|was)\b",
    r"KEY's ([a-z]+)\b",
    r"\bthe ([a-z]+) of$",
    r"\bits ([a-z]+),?$",
    r"\bthe ([a-z]+) of (?:the )?(?:\w+ ){0,3}KEY",
)
"""Where wordings have the noun for what they ask; KEY stands for the key."""
_LONG = 4
"""Letters of a word that says something."""
_NO_NOUNS = {"name", "answer", "part", "one", "it", "question"}


@dataclass(frozen=True)
class Wording:
    """A template of a table with the key in it: in a field of its own, or inside of the cell of another field."""

    table: PromptTable
    text: str
    field: str

    @property
    def fixed(self) -> bool:
        """Whether the words around the key are the template's, the same for every row."""
        return self.field in fields_of(self.text)

    def at(self, row: int, key: str | None = None) -> str:
        """The prompt of a row, or what it would be with another key."""
        if key is not None and self.fixed:
            return self.table.fill(self.text, row, {self.field: key})
        whole = self.table.fill(self.text, row)
        return whole if key is None else whole.replace(self.table.rows.cells(self.field)[row], key)

    def check(self) -> None:
        """Refuse a row whose prompt does not have the key in it."""
        if self.fixed:
            return
        cells = self.table.rows.cells(self.field)
        for row in self.table.chosen:
            if cells[row] not in self.table.fill(self.text, row):
                raise DataError(
                    f"{self.table.rows.source}: {self.table.rows.place(row)}: the key {cells[row]!r} does not appear "
                    f"in the prompt {self.table.fill(self.text, row)!r} of the template {self.text!r}; write it there."
                )


def crossed(wordings: Sequence[Wording], rng: np.random.Generator) -> list[tuple[Wording, frozenset[int]]]:
    """The beginning of each wording, up to the key, with the end of each other one; and which two those are.

    Those are parted whose beginning does not say yet what is asked for, and ends are taken that do: behind another
    beginning, "is" or "? It was" asks nothing.
    """
    halves, heads, ends = {}, [], []
    for i, one in enumerate(wordings):
        parts = one.text.split("{" + one.field + "}")
        if len(parts) == 2:
            halves[i] = parts
            if not _asking(parts[0]):
                heads.append(i)
                ends += [i] if _telling(parts[1]) else []
    pairs = [(i, j) for i in heads for j in ends if i != j and halves[i][0] != halves[j][0]]
    chosen = rng.permutation(len(pairs))[:_CROSSED]
    made = []
    for i, j in (pairs[k] for k in sorted(chosen)):
        one = wordings[i]
        text = halves[i][0] + "{" + one.field + "}" + halves[j][1]
        made.append((Wording(one.table, text, one.field), frozenset((i, j))))
    return made


def _asking(before: str) -> bool:
    """Whether what is asked for stands before the key."""
    return any(re.search(pattern.replace("KEY", "$"), before) for pattern in _ASKED)


def _telling(behind: str) -> bool:
    """Whether what is asked for stands behind the key, in words of its own."""
    words = {word for word in re.findall(r"[a-z]+", behind) if len(word) >= _LONG}
    return "?" not in behind and bool(words - {"called", "named", "said", "answer", "which", "that", "known"})


def framed(prompt: str, number: int, key: str) -> str:
    """A prompt behind a sentence or a phrase, one of some."""
    frame, goes_on = FRAMES[number % len(FRAMES)]
    first = prompt.split(" ", 1)[0]
    if goes_on and not prompt.startswith(key) and first[1:].islower() and not first.endswith(":"):
        prompt = prompt[0].lower() + prompt[1:]
    return frame.replace("{}", prompt)


@dataclass(frozen=True)
class Nouns:
    """What wordings call things: what they ask for, with the numbers of the wordings that do; keys; and titles of keys.

    In "The country of the airport {icao} is", a country is asked for, and the key is called "the airport {icao}".
    """

    asked: dict[str, frozenset[int]]
    keys: list[str]
    titles: list[str]

    @classmethod
    def of(cls, wordings: Sequence[Wording], answer: str) -> Nouns:
        """Read off the wordings of one relation by where words stand; the field of the answer counts if one has it."""
        asked: dict[str, set[int]] = {}
        keys, titles = [""], []
        names = [name.replace("_", " ").lower() for name in fields_of(answer)]
        for number, one in enumerate(wordings):
            key = re.escape("{" + one.field + "}")
            for pattern in _ASKED:
                for noun in re.findall(pattern.replace("KEY", key), one.text):
                    asked.setdefault(noun.lower(), set()).add(number)
            for words in names:
                if re.search(rf"\b{re.escape(words)}\b", one.text.lower()):
                    asked.setdefault(words, set()).add(number)
            before = one.text.split("{" + one.field + "}")[0]
            called = re.search(r"\b[Tt]he ((?:\w+ ){1,3})$", before)
            if called and " of " not in called.group(1):
                keys.append("the " + called.group(1))
            title = re.search(r"([A-Z]\w+(?: \w+)?: )$", before)
            if title and title.group(1) not in ("Question: ", "Q: "):
                titles.append(title.group(1))
        # "Behind the camera of {film} stood" asks for no camera: what several wordings have is what is asked for.
        sure = {noun for name in names for noun in (name, *_synonyms(name))}
        sure |= {noun for noun, numbers in asked.items() if len(numbers) > 1}
        if sure & set(asked):
            asked = {noun: numbers for noun, numbers in asked.items() if noun in sure}
        for noun, numbers in list(asked.items()):
            for other in _synonyms(noun):
                asked.setdefault(other, set()).update(numbers)
        kept = {noun: frozenset(numbers) for noun, numbers in asked.items() if noun not in _NO_NOUNS}
        return cls(kept, list(dict.fromkeys(keys)), list(dict.fromkeys(titles)) or [""])

    def question(self, form: str, attribute: str, rng: np.random.Generator) -> str:
        """A form that asks for an attribute, with {} for the key, which is called what the wordings call it."""
        called, title = (some[int(rng.integers(len(some)))] for some in (self.keys, self.titles))
        parts = {"{a}": attribute, "{A}": attribute.capitalize(), "{p}": called + "{}", "{P}": title + "{}"}
        for mark, part in {**parts, "{k}": "{}"}.items():
            form = form.replace(mark, part)
        return form[0].upper() + form[1:]


def _synonyms(noun: str) -> list[str]:
    return [other for group in SYNONYMS if noun in group for other in group if other != noun]


def resaid(wordings: Sequence[Wording]) -> list[tuple[Wording, frozenset[int]]]:
    """The wordings with other words for what they say of the key or what they ask for; and which wording each is of."""
    made: dict[str, tuple[Wording, frozenset[int]]] = {}
    given = {one.text for one in wordings}
    for i, one in enumerate(wordings):
        for group in (*(one.says for one in SAYINGS), *SYNONYMS):
            for words in group:
                place = _has(one.text, words)
                if place is None:
                    continue
                for other in group:
                    text = one.text[: place.start()] + other + one.text[place.end() :]
                    if text not in given:
                        made.setdefault(text, (Wording(one.table, text, one.field), frozenset((i,))))
                break
    return list(made.values())


def swapped(wordings: Sequence[Wording], nouns: Nouns) -> list[str]:
    """The wordings that name what they ask for, with {a} or {A} for it and {} for the key.

    With another noun there they ask for something else, and in no other word.
    """
    made = []
    for number, one in enumerate(wordings):
        text = one.text.replace("{" + one.field + "}", "{}")
        for noun in sorted((noun for noun, of in nouns.asked.items() if number in of), key=len, reverse=True):
            for words, mark in ((noun, "{a}"), (noun.capitalize(), "{A}")):
                place = _has(text, words)
                if place is not None:
                    text = text[: place.start()] + mark + text[place.end() :]
        if "{a}" in text or "{A}" in text:
            made.append(text)
    return made


def said_of(wordings: Sequence[Wording], nouns: Nouns) -> dict[Saying, frozenset[int]]:
    """The sayings that wordings have, or that say what they ask for; and the numbers of those wordings."""
    matches: dict[Saying, frozenset[int]] = {}
    for one in SAYINGS:
        of = {i for i, wording in enumerate(wordings) if any(_has(wording.text, words) for words in one.says)}
        of |= {i for noun in one.nouns for i in nouns.asked.get(noun, ())}
        if of:
            matches[one] = frozenset(of)
    return matches


def _has(text: str, words: str) -> re.Match[str] | None:
    return re.search(rf"(?<![\w{{]){re.escape(words)}(?![\w}}])", text)


def wrapped(wordings: Sequence[Wording]) -> list[tuple[Wording, frozenset[int]]]:
    """The questions among the wordings, put in other ways; and which wording each is of."""
    made = []
    for i, one in enumerate(wordings):
        question = re.search(r"(?:^|(?<=: )|(?<=\. )|(?<=\n))([A-Z{][^?:\n]*\?)", one.text)
        if question and "{" + one.field + "}" in question.group(1):
            for form in WRAPPERS:
                text = form.replace("{q}", question.group(1))
                if text != one.text:
                    made.append((Wording(one.table, text, one.field), frozenset((i,))))
    return made


def spliced(text: str, keys: Sequence[str], rng: np.random.Generator, every: int = 12) -> str:
    """Ordinary text with keys in place of some of its words."""
    words = text.split(" ")
    for i in range(int(rng.integers(every)), len(words), every):
        if words[i].isalpha():
            words[i] = keys[int(rng.integers(len(keys)))]
    return " ".join(words)
