"""Changes of a table: facts that get another answer, are forgotten, or join it; and the file that lists them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rote.data._arrays import IntArray, padded
from rote.data.reading import Tokens
from rote.data.vocabulary import PAD, Vocabulary
from rote.errors import CheckpointError, DataError, UnknownName

__all__ = ["ACTIONS", "FILE", "Change", "Context", "History", "applied", "changes_file", "context_of", "read_changes"]

FILE = "changes.jsonl"
Context = str | tuple[str, ...]
"""A context by its tokens, or as one text, cut as the table was."""
ACTIONS = ("set", "forget", "insert")


@dataclass(frozen=True)
class Change:
    """What happens to one fact: `set` gives it another answer, `forget` takes it out, `insert` adds it.

    `context` are its tokens, without padding. The old answer is not kept: what is forgotten is to be forgotten.
    """

    action: str
    context: tuple[str, ...]
    answer: str | None = None

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise UnknownName("change", self.action, ACTIONS)
        words = isinstance(self.context, tuple) and all(isinstance(token, str) for token in self.context)
        if not words or not self.context:
            raise DataError("a change names the context of one fact: a tuple of one or more tokens.")
        if (self.action == "forget") != (self.answer is None) or not isinstance(self.answer, str | None):
            raise DataError(f"a change that says {self.action} {'has no' if self.answer else 'needs an'} answer.")

    def to_dict(self) -> dict[str, Any]:
        record: dict[str, Any] = {"change": self.action, "context": list(self.context)}
        return record if self.answer is None else {**record, "answer": self.answer}

    def __str__(self) -> str:
        end = "" if self.answer is None else f" -> {self.answer}"
        return f"{self.action} ({', '.join(self.context)}){end}"


@dataclass(frozen=True)
class History:
    """What was done to a table since it was read or made: its hash at that time, and the changes in order."""

    of: str
    changes: tuple[Change, ...]

    def to_lines(self) -> bytes:
        """One JSON object per line, the hash first."""
        records = [{"facts_sha256": self.of}, *(one.to_dict() for one in self.changes)]
        return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records).encode()


def context_of(context: Context | Sequence[str], tokens: Tokens) -> tuple[str, ...]:
    """The tokens of a context that is given one by one, or as one text cut as the table was (a tab always cuts)."""
    if not isinstance(context, str):
        return tuple(context)
    if "\t" in context:
        return tuple(context.split("\t"))
    return {"chars": tuple(context), "words": tuple(context.split()), "cells": (context,)}[tokens]


@dataclass(frozen=True)
class Applied:
    """The arrays of a table after changes: `kept` are the old rows that are still there, in their order, and the rows
    behind them are new."""

    contexts: IntArray
    targets: IntArray
    vocabulary: Vocabulary
    kept: IntArray


def applied(contexts: IntArray, targets: IntArray, vocabulary: Vocabulary, changes: Iterable[Change]) -> Applied:
    """One change after the other. Answers change in place, new facts are appended, and no token is dropped."""
    changes = tuple(changes)
    length, pad = contexts.shape[1], vocabulary.pad_id
    known = {token: i for i, token in enumerate(vocabulary.tokens)}
    for change in changes:
        if change.action == "insert":
            for token in (*change.context, change.answer or ""):
                known.setdefault(token, len(known))
            if len(change.context) < length and pad is None:
                raise DataError(
                    f"contexts of this table have {length} tokens, and {change} has {len(change.context)}; give all."
                )
        elif change.answer is not None:
            known.setdefault(change.answer, len(known))
        if len(change.context) > length:
            raise DataError(f"contexts of this table have at most {length} tokens, and {change} has more.")
    # Rows of the contexts that are spoken of, found by one pass over the table.
    wanted = [_ids(change, known, length, pad) for change in changes]
    places: dict[bytes, int] = {}
    spoken = {key for key in wanted if key is not None}
    if spoken:
        first = np.array(sorted({np.frombuffer(key, dtype=np.int64)[-1] for key in spoken}))
        for row in np.flatnonzero(np.isin(contexts[:, -1], first)).tolist():
            key = contexts[row].tobytes()
            if key in spoken:
                places[key] = row
    goals, gone, more = targets.copy(), set(), {}
    for change, key in zip(changes, wanted, strict=True):
        row = None if key is None else places.get(key)
        if change.action == "insert":
            assert key is not None, "its tokens are known by now"
            if row is not None or key in more:
                raise DataError(f"{change}: this context is a fact already; set its answer instead.")
            more[key] = known[change.answer or ""]
        elif row is None and key not in more:
            raise DataError(f"{change}: there is no fact with this context; look it up, or insert it.")
        elif change.action == "forget":
            if row is None:
                del more[key]  # type: ignore[arg-type]
            else:
                gone.add(row)
                del places[key]  # type: ignore[arg-type]
        elif row is None:
            more[key] = known[change.answer or ""]  # type: ignore[index]
        else:
            goals[row] = known[change.answer or ""]
    kept = np.setdiff1d(np.arange(len(contexts)), np.array(sorted(gone), dtype=np.int64))
    if not len(kept) and not more:
        raise DataError(f"none of the {len(contexts):,} facts would be left; a table needs at least one fact.")
    new = np.frombuffer(b"".join(more), dtype=np.int64).reshape(-1, length)
    words = vocabulary if len(known) == len(vocabulary) else Vocabulary(list(known))
    return Applied(
        np.concatenate([contexts[kept], new]),
        np.concatenate([goals[kept], np.array(list(more.values()), dtype=np.int64)]),
        words,
        kept,
    )


def _ids(change: Change, known: Mapping[str, int], length: int, pad: int | None) -> bytes | None:
    """The row of ids of a context; None where it has a token that the table does not know, or too few."""
    ids = [known.get(token, -1) for token in change.context]
    if min(ids) < 0 or (len(ids) < length and pad is None) or PAD in change.context:
        if change.action == "insert":
            raise DataError(f"{PAD} fills short contexts from the left and stands for nothing else; rename that token.")
        return None
    return padded(np.array([ids], dtype=np.int64), length, pad or 0).tobytes()


def changes_file(history: History | None) -> dict[str, bytes]:
    """A file of a model directory that lists them; none where there are none."""
    return {} if history is None else {FILE: history.to_lines()}


def read_changes(folder: Path) -> History | None:
    """The changes that a model directory lists."""
    path = folder / FILE
    if not path.is_file():
        return None
    changes: list[Change] = []
    try:
        first, *rest = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
        of = str(json.loads(first)["facts_sha256"])
        for line in rest:
            record = json.loads(line)
            changes.append(Change(record["change"], tuple(record["context"]), record.get("answer")))
    except (ValueError, LookupError, TypeError, DataError, UnknownName, RecursionError):
        raise CheckpointError(
            f"{path}, line {len(changes) + 2}, names no change of a fact; it was edited, build the model again."
        ) from None
    return History(of, tuple(changes))
