"""Facts with a label for every position: the frozen `SequenceTable`, and how it is read from a file.

Notation: T = n_facts (sequences), n = context, N = vocab. A fact is (n tokens -> n labels, one for each position).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.data.files import read_raw
from rote.data.rawrows import RawRows
from rote.data.tokenise import Tokens, check_tokens, encode
from rote.data.vocabulary import PAD, Vocabulary
from rote.errors import DataError, UnknownName, UsageError

__all__ = ["SequenceTable", "read_sequences"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SequenceTable:
    """T sequences of n tokens with n labels each, all ids of one vocabulary; the arrays are read-only copies."""

    contexts: IntArray
    targets: IntArray
    vocabulary: Vocabulary
    name: str = "sequences"

    def __post_init__(self) -> None:
        for what in ("contexts", "targets"):
            raw = np.asarray(getattr(self, what))
            if raw.dtype.kind not in "iu" or raw.ndim != 2:
                raise DataError(f"{what} must be a T x n array of token ids, got type {raw.dtype}, shape {raw.shape}.")
            made = np.array(raw, dtype=np.int64, order="C")
            made.flags.writeable = False
            object.__setattr__(self, what, made)
        if self.contexts.shape != self.targets.shape:
            raise DataError(
                f"every position needs one label: contexts have shape {self.contexts.shape}, "
                f"targets {self.targets.shape}."
            )
        if 0 in self.contexts.shape:
            raise DataError(f"a table needs at least one sequence of one token, got shape {self.contexts.shape}.")
        for what, ids in (("contexts", self.contexts), ("targets", self.targets)):
            wrong = (ids < 0) | (ids >= len(self.vocabulary))
            if wrong.any():
                row, at = (int(k) for k in np.argwhere(wrong)[0])
                raise DataError(
                    f"{what} must hold ids from 0 to {len(self.vocabulary) - 1}; sequence {row + 1} has "
                    f"{int(ids[row, at])} at position {at + 1}."
                )

    @property
    def n_facts(self) -> int:
        return len(self.contexts)

    @property
    def context(self) -> int:
        """Tokens of a sequence."""
        return int(self.contexts.shape[1])

    @property
    def vocab(self) -> int:
        return len(self.vocabulary)

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

    def fact_text(self, row: int) -> str:
        """A sequence and its labels, for messages."""
        words = self.vocabulary.token
        given = " ".join(words(int(t)) for t in self.contexts[row])
        return f"({given}) -> ({' '.join(words(int(t)) for t in self.targets[row])})"

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


def read_sequences(
    path: str | os.PathLike[str],
    *,
    target: Sequence[str] | None = None,
    context: Sequence[str] | None = None,
    tokens: Tokens = "cells",
    name: str | None = None,
) -> SequenceTable:
    """Read sequences from a file as `read_facts` does, but with a sequence as target.

    The target columns give as many tokens as the context columns, cut in the same way: as many cells, or a cell with as
    many words or characters. Without a choice the second half of the columns is the target.
    """
    file = Path(path)
    check_tokens(tokens)
    raw = read_raw(file)
    inputs, outputs = _columns(raw, target, context)
    given, wanted = (encode(raw, columns, columns[0], tokens) for columns in (inputs, outputs))
    lengths = [_lengths(part.contexts, part.vocabulary) for part in (given, wanted)]
    wrong = lengths[0] != lengths[1]
    if wrong.any():
        at = int(np.argmax(wrong))
        raise DataError(
            f"{raw.source}: {raw.place(at)}: {int(lengths[0][at])} tokens have {int(lengths[1][at])} labels; every "
            "token needs one label."
        )
    merged = _merge(given.contexts, given.vocabulary, wanted.contexts, wanted.vocabulary)
    return SequenceTable(*merged, name or file.name.split(".")[0] or file.name)


def _lengths(rows: IntArray, vocabulary: Vocabulary) -> IntArray:
    pad = vocabulary.pad_id
    real = np.ones_like(rows) if pad is None else (rows != pad).astype(np.int64)
    counts: IntArray = real.sum(axis=1)
    return counts


def _columns(raw: RawRows, target: Sequence[str] | None, context: Sequence[str] | None) -> tuple[list[str], list[str]]:
    for column in (*(context or ()), *(target or ())):
        if column not in raw.columns:
            raise UnknownName(f"column in {raw.source} named", column, raw.columns)
    if target is None and context is None:
        half = len(raw.columns) // 2
        if len(raw.columns) % 2:
            raise UsageError(
                f"{raw.source} has {len(raw.columns)} columns, so its second half is not clear; name the target "
                "columns, as in --target COL,COL."
            )
        return raw.columns[:half], raw.columns[half:]
    outputs = list(target) if target is not None else [c for c in raw.columns if c not in (context or ())]
    inputs = list(context) if context is not None else [c for c in raw.columns if c not in outputs]
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
