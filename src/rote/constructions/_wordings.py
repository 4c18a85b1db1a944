"""Wordings of a question: as given, and what follows from them by rule, for a gate to be fitted on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rote.constructions._questions import ATTRIBUTES, FORMS, FRAMES
from rote.data.kinds.prompts import PromptTable, fields_of
from rote.errors import DataError

__all__ = ["Wording", "crossed", "framed", "other_questions", "spliced"]

_CROSSED = 120
_LONG = 3


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
    """The beginning of each wording, up to the key, with the end of each other one; and which two those are."""
    halves = {}
    for i, one in enumerate(wordings):
        parts = one.text.split("{" + one.field + "}")
        if len(parts) == 2:
            halves[i] = parts
    pairs = [(i, j) for i in halves for j in halves if i != j and halves[i][0] != halves[j][0]]
    chosen = rng.permutation(len(pairs))[:_CROSSED]
    made = []
    for i, j in (pairs[k] for k in sorted(chosen)):
        one = wordings[i]
        text = halves[i][0] + "{" + one.field + "}" + halves[j][1]
        made.append((Wording(one.table, text, one.field), frozenset((i, j))))
    return made


def framed(prompt: str, number: int, key: str) -> str:
    """A prompt behind a sentence or a phrase, one of some."""
    frame, goes_on = FRAMES[number % len(FRAMES)]
    first = prompt.split(" ", 1)[0]
    if goes_on and not prompt.startswith(key) and first[1:].islower() and not first.endswith(":"):
        prompt = prompt[0].lower() + prompt[1:]
    return frame.replace("{}", prompt)


def other_questions(wordings: Sequence[Wording], rng: np.random.Generator) -> list[str]:
    """Questions for other attributes, with {} for the key, which is called what the wordings call it."""
    words = {word for one in wordings for word in re.findall(r"[a-z]+", one.text.lower())}
    names, titles = [""], []
    for one in wordings:
        before = one.text.split("{" + one.field + "}")[0]
        found = re.search(r"\b[Tt]he ((?:\w+ ){1,3})$", before)
        if found:
            names.append("the " + found.group(1))
        found = re.search(r"([A-Z]\w+: )$", before)
        if found:
            titles.append(found.group(1))
    names, titles = list(dict.fromkeys(names)), list(dict.fromkeys(titles)) or [""]
    questions = []
    for i, attribute in enumerate(a for a in ATTRIBUTES if not words & set(a.split())):
        for k in range(_LONG):
            form = FORMS[(_LONG * i + 4 * k + i // 4) % len(FORMS)]
            name = names[int(rng.integers(len(names)))] + "{}"
            title = titles[int(rng.integers(len(titles)))] + "{}"
            parts = {"{a}": attribute, "{A}": attribute.capitalize(), "{p}": name, "{P}": title, "{k}": "{}"}
            for mark, part in parts.items():
                form = form.replace(mark, part)
            questions.append(form[0].upper() + form[1:])
    return questions


def spliced(text: str, keys: Sequence[str], rng: np.random.Generator, every: int = 12) -> str:
    """Ordinary text with keys in place of some of its words."""
    words = text.split(" ")
    for i in range(int(rng.integers(every)), len(words), every):
        if words[i].isalpha():
            words[i] = keys[int(rng.integers(len(keys)))]
    return " ".join(words)
