"""Plain twins of the readers: the csv and json modules, dictionaries and loops. Slow, and easy to believe."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rote.data import PAD, FactTable, Reading, read

Fact = tuple[tuple[str, ...], str]


def read_facts(source: str | Path, **choices: Any) -> tuple[FactTable, Reading]:
    """The facts of a source, and how they were read."""
    table = read(source, **choices)
    assert isinstance(table, FactTable)
    assert table.reading is not None
    assert table.reading == Reading.from_dict({**table.reading.to_dict(), "path": table.reading.path})
    return table, table.reading


class Refused(Exception):
    """The twin would not accept this file either."""


def twin_read(data: bytes, separator: str = ",", tokens: str = "cells", on_conflict: str = "error") -> list[Fact]:
    """The facts of a CSV file in file order, or Refused."""
    try:
        text = data.decode("utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise Refused(str(error)) from error
    if "\0" in text or len(rows) < 2:
        raise Refused("no text or no rows")
    header = [name.strip() for name in rows[0]]
    if len(set(header)) < len(header) or "" in header or len(header) < 2:
        raise Refused("header")
    cells = [[cell.strip() for cell in row] for row in rows[1:]]
    if any(len(row) != len(header) or "" in row for row in cells):
        raise Refused("ragged or empty")
    return twin_facts(cells, tokens, on_conflict)


def twin_facts(cells: Sequence[Sequence[str]], tokens: str, on_conflict: str) -> list[Fact]:
    """Rows of stripped cells, the target last, as facts."""
    facts: list[Fact] = []
    for row in cells:
        context: list[str] = []
        for cell in row[:-1]:
            context += {"cells": [cell], "words": cell.split(), "chars": list(cell)}[tokens]
        if tokens == "cells":
            while context and context[0] == PAD:
                context.pop(0)
        if PAD in context or not context or row[-1] == PAD:
            raise Refused("pad")
        facts.append((tuple(context), row[-1]))
    distinct = list(dict.fromkeys(facts))
    by_context = dict(reversed(facts)) if on_conflict == "first" else dict(facts)
    if on_conflict == "error" and len(by_context) < len(distinct):
        raise Refused("conflict")
    return [fact for fact in distinct if by_context[fact[0]] == fact[1]]


def facts_of(table: FactTable) -> list[Fact]:
    """The content of a table in words."""
    words = table.vocabulary.tokens
    return [(table.context_tokens(i), words[table.targets[i]]) for i in range(table.n_facts)]


def check_invariants(table: FactTable) -> None:
    """What holds for every table that a reader returns."""
    pad = table.vocabulary.pad_id
    real = list(table.vocabulary.tokens)[0 if pad is None else 1 :]
    assert real == sorted(set(real))
    assert pad in (None, 0)
    used = set(table.contexts.ravel().tolist()) | set(table.targets.tolist())
    assert used == set(range(table.vocab))
    assert not table.contexts.flags.writeable
    assert not table.targets.flags.writeable
    assert len({tuple(row) for row in table.contexts.tolist()}) == table.n_facts
