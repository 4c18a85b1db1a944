"""`Table`: what every kind of data is to the pipeline, whatever it holds.

A kind is one file in `data/kinds/`, found by its name. `rote.read` asks each kind whether a source is of its kind;
the pipeline asks a table for its size, its demand and its words, and lets it score what a model says.
`rote.testing.check_table` holds a table against this contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rote.data.changes import Change, Context, History, context_of
from rote.errors import UsageError
from rote.plot.sheet import Grid, Sheet, Shown, visible

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

    from rote.config import Dtype, Shape
    from rote.data.demand import Demand
    from rote.data.key_filter import KeyFilter
    from rote.data.left_out import LeftOut
    from rote.data.outputs import Outputs
    from rote.data.reading import Choices, Reading, Tokens
    from rote.data.source import Source
    from rote.data.verification import Verification
    from rote.data.vocabulary import Vocabulary

__all__ = ["Inputs", "Table"]

Inputs = tuple[Any, ...]
"""What a model reads of some facts: read-only arrays with one row for each, such as (contexts,) or (contexts, queries).
A context that all examples share is given once."""


class Table(Shown, ABC):
    """A frozen table of facts of some kind. Equal content is equal, whatever its name and wherever it was read."""

    kind: ClassVar[str]
    """The name of the file that defines the class, such as "facts"."""
    endings: ClassVar[tuple[str, ...]] = ()
    """Endings of files that hold only this kind, such as ".safetensors"; the explorer takes them too."""
    noun: ClassVar[str] = "facts"
    """What is counted."""

    name: str
    reading: Reading | None
    """How it was read from a file; None for a table made in memory."""
    left_out: tuple[LeftOut, ...] = ()
    """Facts of its source that a construction cannot hold; they were asked to be left out."""
    history: History | None = None
    """What was changed since it was read or made."""

    @classmethod
    def claims(cls, source: Source, choices: Choices) -> int:
        """How surely a source is of this kind, for a reader who was not told: 0 it is not, 1 it can be read as such,
        2 it looks like it, 3 it is. The largest claim wins."""
        return 0

    @classmethod
    def of(cls, source: Source, choices: Choices, name: str | None = None) -> Self:
        """The table of a source, with its reading, named after the source unless `name` says otherwise."""
        raise UsageError(f"tables of {cls.kind} are not read from files; make them in memory.")

    @classmethod
    def examples(cls, rng: np.random.Generator) -> list[Self]:
        """Small tables that differ in everything that may differ, for the contract suite."""
        return []

    def write(self, path: str | os.PathLike[str]) -> Choices:
        """Write a file, whole or not at all; the choices that read it back are returned."""
        raise UsageError(f"tables of {self.kind} are not written to files.")

    @property
    @abstractmethod
    def n_facts(self) -> int:
        """How many facts, examples or contexts."""

    @property
    @abstractmethod
    def context(self) -> int:
        """Tokens or vectors in a context."""

    @property
    @abstractmethod
    def sha256(self) -> str:
        """A hash of the content, not of the name: equal for equal tables, on every machine."""

    @property
    @abstractmethod
    def bits(self) -> float:
        """What the targets weigh together, in bits, if every target in use is as likely as any other."""

    @property
    def words(self) -> Vocabulary | None:
        """The tokens of the table; None where facts are not made of tokens."""
        return None

    @property
    def tokens(self) -> Tokens:
        """What a token of the source was: whole cells, words or characters."""
        return "cells" if self.reading is None else self.reading.tokens

    @property
    def properties(self) -> tuple[str, ...]:
        """Names of columns that are the last token of every context; none where contexts are keys only."""
        return () if self.reading is None else self.reading.properties

    @abstractmethod
    def demand(self, dtype: Dtype, shape: Shape) -> Demand:
        """What must fit, with everything that the data tell about the conditions of theorems."""

    @abstractmethod
    def inputs(self, part: slice) -> Inputs:
        """What a model reads of these facts."""

    @abstractmethod
    def score(self, outputs: Outputs, dtype: str, *, tolerance: float = 1e-3) -> Verification:
        """Ask for every fact and compare."""

    def in_words_of(self, tokens: tuple[str, ...], length: int) -> Self:
        """The table with a model's token ids and context length; what the model does not know is refused."""
        return self

    @abstractmethod
    def fact_text(self, i: int) -> str:
        """One fact for people."""

    def place(self, i: int) -> str:
        """Where a fact stands in its file, or its number."""
        return f"{self.noun.removesuffix('s')} {i + 1}"

    def leaving_out(self, left_out: Sequence[LeftOut]) -> Self:
        """The table but for some facts that cannot be held, of which it keeps a record."""
        if left_out:
            raise UsageError(f"a table of {self.kind} cannot leave facts out by itself; leave them out of the file.")
        return self

    def changed(self, changes: Sequence[Change]) -> Self:
        """The table after some changes, of which it keeps a record; its words are those that it had, and new ones."""
        raise UsageError(f"a table of {self.kind} is not changed fact by fact; change its file, and read it again.")

    def replace(self, answers: Mapping[Context, str]) -> Self:
        """The table with other answers to some of its contexts."""
        return self.changed([Change("set", context_of(key, self.tokens), answer) for key, answer in answers.items()])

    def insert(self, answers: Mapping[Context, str]) -> Self:
        """The table with more facts: contexts that it did not have, with their answers."""
        return self.changed([Change("insert", context_of(key, self.tokens), answer) for key, answer in answers.items()])

    def without(self, contexts: Iterable[Context]) -> Self:
        """The table but for the facts with these contexts, over the same words."""
        return self.changed([Change("forget", context_of(key, self.tokens)) for key in contexts])

    def record(self, i: int) -> dict[str, Any]:
        """One fact, ready for JSON."""
        return {"text": self.fact_text(i)}

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Name, sizes and hash, ready for JSON."""

    @classmethod
    def again(cls, source: str | Path, choices: Choices, certificate: Mapping[str, Any]) -> Table:
        """A table of this kind, read from a source as the one of a certificate was."""
        from dataclasses import replace

        from rote.data.source import Source

        return cls.of(Source.of(source), replace(choices, kind=cls.kind))

    def files(self) -> dict[str, bytes]:
        """Files of its own that a model directory carries beside the weights, by name."""
        return {}

    @property
    def keys(self) -> KeyFilter | None:
        """A filter of the contexts that a model directory carries instead of the table; None where it carries the
        table itself, or contexts are no token ids."""
        return None

    def key_findings(self, keys: KeyFilter | None) -> dict[str, Any]:
        """What a filter says of the contexts of this table, and of others; nothing where it says nothing."""
        return {}

    @classmethod
    def stored(cls, folder: Path, certificate: Mapping[str, Any], words: tuple[str, ...]) -> Table | None:
        """The table that a model directory carries, or None."""
        return None

    def truth(self, ids: Any) -> dict[str, float] | None:
        """What is true of a context of token ids: answers with their probabilities; several labels are one answer, side
        by side. None where the table has no such context."""
        return None

    def __len__(self) -> int:
        return self.n_facts

    def __eq__(self, other: object) -> bool:
        """Equal content; the name does not count."""
        return type(other) is type(self) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    @property
    def extent(self) -> str:
        """Sizes besides the count, for people."""
        known = "" if self.words is None else f", {len(self.words):,} tokens"
        return f"contexts of {self.context}{known}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}: {self.n_facts:,} {self.noun}, {self.extent})"

    def sheet(self, rows: int = 5) -> Sheet:
        """Its sizes, and its first facts."""
        sizes = tuple((key, f"{v:,}" if type(v) is int else str(v)) for key, v in self.describe().items())
        first = tuple((str(i + 1), visible(self.fact_text(i))) for i in range(min(rows, self.n_facts)))
        rest = self.n_facts - len(first)
        grids = (Grid(("", self.kind), sizes, left=(self.kind,)), Grid(("", self.noun), first, left=(self.noun,)))
        notes = (f"... and {rest:,} more",) if rest and first else ()
        return Sheet(repr(self), grids=grids if first else grids[:1], notes=notes)
