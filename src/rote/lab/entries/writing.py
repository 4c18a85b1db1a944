"""From the rows of an entry to its files: rows.csv, the figures, and entry.json with the verdict."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote._version import __version__
from rote.data._atomic import write_atomically
from rote.lab.entries.claims import Verdict, get_claim
from rote.lab.entries.entry import Entry
from rote.lab.entries.figure import make_figure
from rote.lab.entries.sentences import fill
from rote.lab.entries.table import Table, write_csv
from rote.measurement.sweeps import Work
from rote.plot import Figure, Sheet, Shown, read_figure
from rote.plot.draw import FORMATS
from rote.plot.figure import write_bytes

__all__ = ["Reproduced", "books_of", "decide", "judged", "named", "own_grid", "write_record"]

_TOLD = ("d_model", "n_heads", "d_head", "d_mlp", "context", "n_facts")
_SPELLED = {"holds": "holds", "does not hold": "fails", "undecided": "undecided", "not judged": "not_judged"}
_NOT_JUDGED = (
    "The quick grid has other cells than the full one (fewer steps, smaller shapes), so its figure says nothing about "
    "the claim"
)


@dataclass(frozen=True, repr=False)
class Reproduced(Shown):
    """What became of one entry; `record` is its entry.json."""

    entry: Entry
    folder: Path
    record: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        return str(self.record["verdict"])

    def figures(self) -> list[Figure]:
        """The figures of the entry, as data."""
        return [read_figure(self.folder / f"{item['name']}.json") for item in self.record["figures"]]

    def sheet(self) -> Sheet:
        answer = (f"    {self.record['answer']}",) if self.record["answer"] else ()
        return Sheet(self.entry.key, f": {self.verdict}. {self.record['sentence']}", lines=answer)

    def __repr__(self) -> str:
        return f"Reproduced({self.entry.key}, {self.record['mode']}: {self.verdict}; {self.folder})"

    def _repr_html_(self) -> str:
        return super()._repr_html_() + "".join(figure._repr_html_() for figure in self.figures())


def decide(entry: Entry, table: Table) -> tuple[str, str, dict[str, Any]]:
    """Verdict, why, and the numbers of all tests of an entry; without a test that decides it is undecided."""
    numbers: dict[str, Any] = {}
    verdicts: list[Verdict] = []
    for spec in entry.tables("test"):
        verdict = get_claim(str(spec["kind"])).decide(table, spec)
        prefix = f"{spec['name']}_" if spec.get("name") else ""
        numbers |= {f"{prefix}{key}": value for key, value in verdict.numbers.items()}
        numbers[f"{prefix}verdict"] = verdict.verdict
        if spec.get("decides", True):
            verdicts.append(verdict)
    for word in ("does not hold", "undecided"):
        for verdict in verdicts:
            if verdict.verdict == word:
                return word, verdict.why, numbers
    if not verdicts:
        return "undecided", "no test decides it", numbers
    return "holds", "; ".join(verdict.why for verdict in verdicts), numbers


def books_of(cells: Sequence[Work], statuses: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """What a record says about how it came to be: versions, seconds, cells that are done and cells that are not."""
    missing = [cell for cell in cells if cell.hash not in statuses]
    bad = sum(statuses.get(cell.hash, "done") != "done" for cell in cells)
    return {
        "versions": _versions(),
        "seconds": round(seconds, 3),
        "cells": {"done": len(cells) - bad - len(missing), "failed": bad, "missing": len(missing)},
        "missing": named(missing),
    }


def write_record(entry: Entry, table: Table, out: Path, *, quick: bool, books: Mapping[str, Any]) -> Reproduced:
    """rows.csv, the figures and entry.json of one entry, each written whole; `books` is of `books_of`."""
    folder = out / entry.key
    folder.mkdir(parents=True, exist_ok=True)
    verdict, why, numbers = decide(entry, table) if table.records else ("undecided", "no cell is done", {})
    words = entry.record.get("words", {})
    decided = verdict
    if not judged(entry, quick=quick):
        own = entry.record.get("judged", True)
        rest = "`--full` decides it" if own else "the full one, which is not the paper's, decides nothing either"
        told = f"{_NOT_JUDGED}; {rest}."
        if not quick:
            told = str(words.get("not_judged", "The full grid is not the paper's, so it decides nothing."))
        verdict, words = "not judged", {"not_judged": told}
    template = words.get(_SPELLED[verdict], f"The claim {'is ' if verdict == 'undecided' else ''}{verdict}: {{why}}.")
    answers = words.get("answer", "")
    if isinstance(answers, dict):
        answers = answers.get(_SPELLED[verdict], "")
    facts = {**numbers, "why": why, "verdict": verdict, "decided": decided}
    figures = []
    for index, spec in enumerate(entry.tables("figure")):
        name = str(spec.get("name", "figure" if index == 0 else f"figure{index + 1}"))
        figure = make_figure(table, {"title": entry.title, **spec}, facts)
        figure.write(folder / f"{name}.json")
        for kind in FORMATS:
            figure.draw(folder / f"{name}.{kind}")
        figures.append({"name": name, "caption": figure.caption, "alt": figure.alt})
    if table.rows:
        write_atomically(folder / "rows.csv", lambda part: write_csv(part, table))
    record = {
        "entry": entry.key,
        **{name: entry.text(name) for name in ("title", "paper", "source", "question", "claim")},
        "verdict": verdict,
        "sentence": fill(template, facts),
        "answer": fill(str(answers), facts),
        "deviations": [fill(str(one), facts) for one in entry.record.get("deviations", [])],
        "mode": "quick" if quick else "full",
        "command": f"rote reproduce {entry.called or entry.key} --{'quick' if quick else 'full'}",
        **books,
        "published": [
            {name: value for name, value in row.items() if value is not None}
            for row in table.rows
            if row["source"] == "published"
        ],
        "config": dict(entry.record),
        "numbers": {name: _kept(value) for name, value in numbers.items()},
        "figures": figures,
    }
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n"
    write_bytes(folder / "entry.json", text.encode())
    return Reproduced(entry, folder, record)


def own_grid(entry: Entry) -> bool:
    """Whether every cell of the quick run is one of the full run: the same recipe at fewer places."""
    return {cell.hash for cell in entry.cells(quick=True)} <= {cell.hash for cell in entry.cells(quick=False)}


def judged(entry: Entry, *, quick: bool) -> bool:
    """Whether a run may speak about the claim: a paper's is settled by its own grid and recipe alone."""
    if entry.record.get("judged", True) is False:
        # Not even the full grid is the paper's.
        return False
    return not (quick and entry.text("paper") and not own_grid(entry))


def named(cells: Sequence[Work]) -> list[str]:
    """Cells in words: for every way of measuring how many, and the values of what sets them apart."""
    ways: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        record = cell.to_dict()
        way = record.get("study") or (record.get("recipe") if record.get("by") == "train" else record.get("by"))
        ways.setdefault(str(way), []).append(record)
    found = []
    for way, members in ways.items():
        values = {name: sorted({one[name] for one in members if one.get(name) is not None}) for name in _TOLD}
        told = [f"{name} {', '.join(map(str, held))}" for name, held in values.items() if held]
        found.append(f"{way}, {len(members)} cells: {'; '.join(told)}")
    return found


def _kept(value: Any) -> Any:
    """JSON has no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _versions() -> dict[str, str]:
    import numpy as np
    import torch

    return {
        "rote": __version__,
        "torch": str(torch.__version__),
        "numpy": str(np.__version__),
        "python": platform.python_version(),
    }
