"""Questions with several right answers (worked example of docs/adding-a-construction.md).

A file has the answers of a question in its last column, separated by a bar: `Switzerland,German|French|Italian`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from rote.data.files import write_frame
from rote.data.outputs import Outputs
from rote.data.reading import Choices, Reading
from rote.data.source import Source
from rote.data.token_table import TokenTable
from rote.data.verification import Tally, Verification
from rote.data.vocabulary import Vocabulary
from rote.errors import CheckpointError, DataError

__all__ = ["ChoiceTable", "table"]

BAR = "|"


@dataclass(frozen=True, eq=False, repr=False)
class ChoiceTable(TokenTable):
    """T questions of S tokens each, and K right answers to each; a question with fewer repeats its first.

    A question is recalled if some right answer has the largest score of all tokens. Constructions see the first right
    answer, as `targets`.
    """

    contexts: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    vocabulary: Vocabulary
    name: str = "choices"
    reading: Reading | None = None

    kind: ClassVar[str] = "choices"
    noun: ClassVar[str] = "questions"

    def __post_init__(self) -> None:
        for name in ("contexts", "right"):
            array = np.array(getattr(self, name), dtype=np.int64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "targets", self.right[:, 0])
        if len(np.unique(self.contexts, axis=0)) < len(self.contexts):
            raise DataError("a question stands in the table twice; write its right answers into one row.")

    @classmethod
    def from_rows(cls, contexts: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> ChoiceTable:
        """A table from words."""
        ids = {token: i for i, token in enumerate(sorted({word for row in (*contexts, *answers) for word in row}))}
        most = max(len(row) for row in answers)
        right = [[ids[word] for word in [*row, *[row[0]] * (most - len(row))]] for row in answers]
        return cls(np.array([[ids[word] for word in row] for row in contexts]), np.array(right), Vocabulary(ids))

    # --- files ------------------------------------------------------------------------------------------------------

    @classmethod
    def claims(cls, source: Source, choices: Choices) -> int:
        """A bar in the last column: 2, it looks like this kind, which is more than the 1 of plain facts."""
        if not source.has_rows:
            return 0
        last = source.rows.cells(source.rows.columns[-1])
        return 2 if last.str.contains(BAR, literal=True).any() else 0

    @classmethod
    def of(cls, source: Source, choices: Choices, name: str | None = None) -> ChoiceTable:
        raw = source.rows
        target, columns = raw.roles(choices.one_target, choices.columns, None)
        contexts = list(zip(*(raw.cells(column).to_list() for column in columns), strict=True))
        answers = [cell.split(BAR) for cell in raw.cells(target)]
        reading = dataclasses.replace(
            source.reading(choices), n_rows=len(contexts), columns=columns, target=(target,), tokens="cells"
        )
        return dataclasses.replace(cls.from_rows(contexts, answers), name=name or source.stem, reading=reading)

    def write(self, path: str | os.PathLike[str]) -> Choices:
        words = np.array(self.vocabulary.tokens)
        cells = {f"c{k + 1}": words[self.contexts[:, k]].tolist() for k in range(self.context)}
        cells["answers"] = [BAR.join(dict.fromkeys(words[row].tolist())) for row in self.right]
        write_frame(pl.DataFrame(cells), path)
        return Choices(self.kind)

    # --- what the pipeline asks -------------------------------------------------------------------------------------

    @property
    def n_targets(self) -> int:
        return len(np.unique(self.right))

    @property
    def bits(self) -> float:
        return self.n_facts * math.log2(max(2, self.n_targets))

    @cached_property
    def sha256(self) -> str:
        digest = hashlib.sha256(repr((self.vocabulary.tokens, self.contexts.shape, self.right.shape)).encode())
        digest.update(self.contexts.astype("<i8").tobytes() + self.right.astype("<i8").tobytes())
        return digest.hexdigest()

    def score(self, outputs: Outputs, dtype: str, *, tolerance: float = 1e-3) -> Verification:
        tally = Tally()
        for part in outputs.parts(self.n_facts):
            asked = self.inputs(part)
            answers = [outputs.leads(asked, self.right[part, k]) for k in range(self.right.shape[1])]
            margins, said = np.max([leads for leads, _ in answers], axis=0), answers[0][1]

            def told(row: int, start: int = part.start, said: Any = said) -> tuple[str, str, str]:
                answer = "no answer" if said[row] < 0 else self.vocabulary.token(int(said[row]))
                return self.text(self.contexts[start + row]), self._answers(start + row), answer

            tally.add(part.start, margins, told)
        return tally.result(self, outputs, dtype)

    def in_words_of(self, tokens: tuple[str, ...], length: int) -> ChoiceTable:
        if self.vocabulary.tokens == tokens and self.context == length:
            return self
        unknown = [token for token in self.vocabulary if token not in tokens]
        if unknown or self.context != length:
            raise CheckpointError(f"the model reads {length} tokens and does not know {unknown[:1]}; it is another's.")
        ids = np.array([tokens.index(token) for token in self.vocabulary])
        known = Vocabulary(tokens)
        return dataclasses.replace(self, contexts=ids[self.contexts], right=ids[self.right], vocabulary=known)

    # --- for people -------------------------------------------------------------------------------------------------

    def _answers(self, i: int) -> str:
        return " or ".join(dict.fromkeys(self.vocabulary.token(int(k)) for k in self.right[i]))

    def fact_text(self, i: int) -> str:
        return f"({', '.join(self.context_tokens(i))}) -> {self._answers(i)}"

    def describe(self) -> dict[str, Any]:
        sizes = {"n_facts": self.n_facts, "context": self.context, "vocab": self.vocab}
        return {"name": self.name, **sizes, "most_answers": int(self.right.shape[1]), "sha256": self.sha256}

    # --- for the contract suite -------------------------------------------------------------------------------------

    @classmethod
    def examples(cls, rng: np.random.Generator) -> list[ChoiceTable]:
        one = cls.from_rows([["Oslo"], ["Bern"]], [["Norwegian"], ["German", "French"]])
        many = cls.from_rows([["a", "b"], ["b", "a"], ["a", "a"]], [["x", "y"], ["y"], ["z", "x", "y"]])
        return [one, many]


table = ChoiceTable
