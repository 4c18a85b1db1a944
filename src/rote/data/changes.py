"""Changes of a table: facts that get another answer, are forgotten, or join it; and the file that lists them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote.data.reading import Tokens
from rote.errors import CheckpointError, DataError, UnknownName

__all__ = ["ACTIONS", "FILE", "Change", "Context", "History", "changes_file", "context_of", "read_changes", "tokens_of"]

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
        if not isinstance(self.answer, str | None):
            raise DataError(f"an answer is a token, and {self.answer!r} is none.")
        if (self.action == "forget") != (self.answer is None):
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


def tokens_of(table: Any) -> list[tuple[str, ...]]:
    """The contexts of a table of tokens, to be named in changes of another."""
    if table.words is None:
        raise DataError(f"a table of {table.kind} has no contexts of tokens that could name facts.")
    words, pad = table.words.tokens, table.words.pad_id
    rows = table.inputs(slice(0, table.n_facts))[0].tolist()
    return [tuple(words[i] for i in row if i != pad) for row in rows]


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
