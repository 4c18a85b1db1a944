"""Facts with a label for every position: the frozen `SequenceTable`, and how it is read from a file.

Notation: T = n_facts (sequences), n = context, N = vocab. A fact is (n tokens -> n labels, one for each position).
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from rote.data._arrays import IntArray, check_ids, freeze, integers, padded, reworded
from rote.data.files import check_cells, write_frame
from rote.data.holes import settle
from rote.data.reading import Choices, Reading
from rote.data.rows import RawRows
from rote.data.source import Source
from rote.data.token_table import TokenTable
from rote.data.tokenise import encode
from rote.data.vocabulary import PAD, Vocabulary
from rote.errors import DataError, UsageError

__all__ = ["SequenceTable"]


@dataclass(frozen=True, eq=False, repr=False)
class SequenceTable(TokenTable):
    """T sequences of n tokens with n labels each, all ids of one vocabulary; the arrays are read-only copies."""

    contexts: IntArray
    targets: IntArray
    vocabulary: Vocabulary
    name: str = "sequences"
    reading: Reading | None = None

    kind: ClassVar[str] = "sequences"
    noun: ClassVar[str] = "sequences"

    def __post_init__(self) -> None:
        contexts, targets = integers(self.contexts, "contexts", 2), integers(self.targets, "targets", 2)
        if contexts.shape != targets.shape:
            raise DataError(
                f"every position needs one label: contexts have shape {contexts.shape}, targets {targets.shape}."
            )
        if 0 in contexts.shape:
            raise DataError(f"a table needs at least one sequence of one token, got shape {contexts.shape}.")
        check_ids(contexts, "contexts", self.vocabulary, "sequence")
        check_ids(targets, "targets", self.vocabulary, "sequence")
        freeze(self, contexts=contexts, targets=targets)

    @classmethod
    def claims(cls, source: Source, choices: Choices) -> int:
        """Columns as `write` names them: x1, x2, ... and as many of y1, y2, ... Of others nobody can tell."""
        if not source.has_rows or choices.columns is not None or choices.weight is not None:
            return 0
        names = source.rows.columns
        half = len(names) // 2
        own = [f"{letter}{k + 1}" for letter in "xy" for k in range(half)]
        return 3 if half and names == own and choices.target in (None, tuple(own[half:])) else 0

    @classmethod
    def of(cls, source: Source, choices: Choices, name: str | None = None) -> SequenceTable:
        """As for facts, but with a sequence as target.

        The target columns give as many tokens as the context columns, cut in the same way: as many cells, or a cell
        with as many words or characters. Without a choice the second half of the columns is the target.
        """
        raw, reading = source.rows, source.reading(choices)
        if choices.weight is not None:
            raise UsageError("sequences have no weights; leave the column of weights out.")
        inputs, outputs = _columns(raw, choices)
        settled = settle(raw, inputs, outputs, None, reading.tokens, choices.on_missing)
        raw = settled.raw
        given, wanted = (encode(raw, columns, columns[0], reading.tokens) for columns in (inputs, outputs))
        lengths = [_lengths(part.contexts, part.vocabulary) for part in (given, wanted)]
        wrong = lengths[0] != lengths[1]
        if wrong.any():
            at = int(np.argmax(wrong))
            raise DataError(
                f"{raw.source}: {raw.place(at)}: {int(lengths[0][at])} tokens have {int(lengths[1][at])} labels; every "
                "token needs one label."
            )
        merged = _merge(given.contexts, given.vocabulary, wanted.contexts, wanted.vocabulary)
        longest = given.contexts.shape[1]
        reading = dataclasses.replace(
            reading,
            n_rows=len(given.contexts),
            n_missing=settled.n_missing,
            n_padded=int(np.count_nonzero(lengths[0] < longest)),
            columns=inputs,
            target=outputs,
        )
        return cls(*merged, name or source.stem, reading)

    @classmethod
    def examples(cls, rng: np.random.Generator) -> list[SequenceTable]:
        words = Vocabulary(["a", "b", "c", "d"])
        return [cls(rng.integers(4, size=(6, 3)), rng.integers(4, size=(6, 3)), words)]

    def write(self, path: str | os.PathLike[str]) -> Choices:
        """Write the columns x1, x2, ..., y1, y2, ...: tokens, then labels."""
        check_cells(self.vocabulary)
        words = pl.Series(self.vocabulary.tokens, dtype=pl.String)
        parts = (("x", self.contexts), ("y", self.targets))
        cells = {f"{letter}{k + 1}": words.gather(ids[:, k]) for letter, ids in parts for k in range(self.context)}
        write_frame(pl.DataFrame(cells), path)
        return Choices(self.kind, tokens="cells")

    @cached_property
    def n_targets(self) -> int:
        """Distinct labels."""
        return len(np.unique(self.targets))

    @cached_property
    def sha256(self) -> str:
        """A hash of the content (not of the name): equal for equal tables, on every machine."""
        digest = hashlib.sha256(b"rote.SequenceTable.1\n")
        for token in self.vocabulary:
            digest.update(f"{len(token.encode())}:".encode() + token.encode())
        for array in (self.contexts, self.targets):
            digest.update(f"{array.shape}\n".encode())
            digest.update(array.astype("<i8").tobytes())
        return digest.hexdigest()

    def fact_text(self, i: int) -> str:
        """A sequence and its labels, for messages."""
        return f"({self.text(self.contexts[i])}) -> ({self.text(self.targets[i])})"

    def record(self, i: int) -> dict[str, Any]:
        context, target = ([self.vocabulary.tokens[k] for k in ids[i]] for ids in (self.contexts, self.targets))
        return {"context": context, "target": target}

    def describe(self) -> dict[str, Any]:
        """Name, sizes and hash, ready for JSON."""
        return {
            "name": self.name,
            "n_facts": self.n_facts,
            "context": self.context,
            "vocab": self.vocab,
            "n_targets": self.n_targets,
            "sha256": self.sha256,
        }

    @property
    def bits(self) -> float:
        return self.n_facts * self.context * math.log2(max(2, self.n_targets))

    def in_words_of(self, tokens: tuple[str, ...], length: int) -> SequenceTable:
        if self.vocabulary.tokens == tokens and self.context == length:
            return self
        ids = reworded(self.vocabulary, tokens, self.context, length)
        known = Vocabulary(tokens)
        contexts, targets = (padded(ids[rows], length, known.pad_id or 0) for rows in (self.contexts, self.targets))
        return dataclasses.replace(self, contexts=contexts, targets=targets, vocabulary=known)

    def truth(self, ids: Any) -> dict[str, float] | None:
        rows = np.flatnonzero((self.contexts == np.asarray(ids)).all(axis=1))
        return {self.text(self.targets[row]): 1.0 for row in rows} or None


table = SequenceTable


def _lengths(rows: IntArray, vocabulary: Vocabulary) -> IntArray:
    pad = vocabulary.pad_id
    real = np.ones_like(rows) if pad is None else (rows != pad).astype(np.int64)
    counts: IntArray = real.sum(axis=1)
    return counts


def _columns(raw: RawRows, choices: Choices) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of tokens and the columns of labels."""
    target, context = choices.target, choices.columns
    raw.check_columns((*(context or ()), *(target or ())))
    if target is None and context is None:
        half = len(raw.columns) // 2
        if len(raw.columns) % 2:
            raise UsageError(
                f"{raw.source} has {len(raw.columns)} columns, so its second half is not clear; name the "
                "target columns."
            )
        return tuple(raw.columns[:half]), tuple(raw.columns[half:])
    outputs = target if target is not None else tuple(c for c in raw.columns if c not in (context or ()))
    inputs = context if context is not None else tuple(c for c in raw.columns if c not in outputs)
    both = set(inputs) & set(outputs)
    if both:
        raise UsageError(f"column {min(both)!r} cannot be context and target at once.")
    if not inputs or not outputs:
        raise UsageError(f"{raw.source} needs context columns and target columns; name some of its columns only.")
    return inputs, outputs


def _merge(
    contexts: IntArray, words: Vocabulary, targets: IntArray, labels: Vocabulary
) -> tuple[IntArray, IntArray, Vocabulary]:
    """Both in one vocabulary: the sorted tokens in use, `<pad>` in front where something is padded."""
    used = {words.token(int(t)) for t in np.unique(contexts)} | {labels.token(int(t)) for t in np.unique(targets)}
    ordered = sorted(used - {PAD})
    if PAD in used:
        ordered = [PAD, *ordered]
    place = {token: i for i, token in enumerate(ordered)}

    def moved(ids: IntArray, old: Vocabulary) -> IntArray:
        table = np.array([place.get(token, -1) for token in old.tokens], dtype=np.int64)
        result: IntArray = table[ids]
        return result

    return moved(contexts, words), moved(targets, labels), Vocabulary(ordered)
