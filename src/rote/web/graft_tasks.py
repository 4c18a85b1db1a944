"""What a worker process can be asked about grafts: questions that are worth asking, and texts that it goes on from."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rote.errors import RoteError

if TYPE_CHECKING:
    from rote.data.kinds.prompts import PromptTable
    from rote.memory import Memory

__all__ = ["about", "speak"]

Notice = Callable[[dict[str, Any]], None]
_ROWS, _WORDINGS, _LONGEST, _TRIES = 3, 24, 500, 50


def about(memory: Memory) -> dict[str, Any]:
    """The certificate for people and as it is, and questions by what they are."""
    table = _table(memory)
    asked = [] if table is None else list(_questions(memory.certificate, table))
    asked += [_question("other", "", text) for text in memory.model.trials(memory.certificate).values()]
    return {
        "certificate": memory.certificate.to_dict(),
        "sheet": asdict(memory.certificate.sheet()),
        "questions": [one for one in asked if 0 < len(one["text"]) < _LONGEST],
    }


def speak(memory: Memory, text: str, notice: Notice) -> dict[str, Any]:
    """What the original goes on with, and then what the graft does; `notice` is told of every token."""
    sides = {}
    for side in ("before", "after"):

        def heard(said: str, side: str = side) -> None:
            notice({"side": side, "text": said})

        sides[side] = memory.model.speak([text], heard, before=side == "before")
    return {**sides, "same": sides["before"] == sides["after"]}


def _table(memory: Memory) -> PromptTable | None:
    """The facts, where the directory carries them or they are shipped: a certificate may name any other file."""
    from rote.data import available
    from rote.data.kinds.prompts import PromptTable

    reading = memory.certificate.reading
    names = {item.name for item in available() if item.installed}
    try:
        table = memory.carried
        if table is None and reading is not None and reading.shipped and reading.source in names:
            table = memory.table()
    except RoteError:
        return None
    return table if isinstance(table, PromptTable) else None


def _questions(certificate: Mapping[str, Any], table: PromptTable) -> Iterator[dict[str, Any]]:
    """Stored facts, one of them in other words, and keys that no row has; what an edited certificate holds instead of
    texts is passed over."""
    import numpy as np

    rng = np.random.default_rng(0)
    rows = [table.chosen[int(i)] for i in rng.permutation(len(table.chosen))[:_ROWS]]
    first = table.templates[0]
    for row in rows:
        yield _question("stored", "", table.fill(first.prompt, row), table.fill(first.answer, row))
    answers = {template.prompt: template.answer for template in table.templates}
    only = first.answer if len({*answers.values()}) == 1 else None
    told = certificate.get("wordings")
    for one in told[:_WORDINGS] if isinstance(told, list) else []:
        wording = one.get("wording") if isinstance(one, Mapping) else None
        if isinstance(wording, str) and wording != first.prompt and _fits(wording, table):
            answer, about = answers.get(wording, only), "fitted" if one.get("fitted") else "held out"
            expected = None if answer is None else table.fill(answer, rows[0])
            yield _question("reworded", about, table.fill(wording, rows[0]), expected)
    key = certificate.get("key")
    if not isinstance(key, str) or key not in table.rows.columns:
        return
    cells = table.rows.cells(key)
    known = {cells[row] for row in table.chosen}
    letters = sorted({c for row in table.chosen[:1000] for c in cells[row]} - {" "})
    for row in rows:
        for _ in range(_TRIES):
            at = int(rng.integers(len(cells[row])))
            other = cells[row][:at] + letters[int(rng.integers(len(letters)))] + cells[row][at + 1 :]
            if other not in known:
                yield _question("unknown", "one character changed", table.fill(first.prompt, row, {key: other}))
                break


def _fits(wording: str, table: PromptTable) -> bool:
    try:
        fields = [name for _, name, _, _ in string.Formatter().parse(wording) if name is not None]
    except ValueError:
        return False
    return set(fields) <= set(table.rows.columns)


def _question(kind: str, about: str, text: str, answer: str | None = None) -> dict[str, Any]:
    return {"kind": kind, "about": about, "text": text, "answer": answer}
