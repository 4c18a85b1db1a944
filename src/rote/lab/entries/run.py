"""The driver: cells that the journal lacks are run, and every entry whose cells are there is written."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote._version import __version__
from rote.data._atomic import write_atomically
from rote.errors import OutputError, UsageError
from rote.lab.entries import cost
from rote.lab.entries.claims import Verdict, get_claim
from rote.lab.entries.entry import Entry
from rote.lab.entries.figure import make_figure
from rote.lab.entries.table import Table, make_table, write_csv
from rote.lab.entries.words import fill
from rote.measure import Journal, Sweep, run_sweep
from rote.measure.sweep import Executor, Group, Progress, Work
from rote.plot import draw as ink

__all__ = ["Reproduced", "decide", "estimate", "reproduce", "write_entry"]

_SPELLED = {"holds": "holds", "does not hold": "fails", "undecided": "undecided"}


@dataclass(frozen=True)
class Reproduced:
    """What became of one entry; `record` is its entry.json."""

    entry: Entry
    folder: Path
    record: Mapping[str, Any]


def estimate(chosen: Sequence[Entry], out: Path, *, quick: bool) -> tuple[int, int, float]:
    """Cells in all, cells that are missing, and about how many seconds those take on one core."""
    cells = {cell.hash: cell for entry in chosen for cell in entry.cells(quick=quick)}
    known: Mapping[str, str] = {}
    if (out / "journal.db").is_file():
        with Journal(out / "journal.db", write=False) as journal:
            known = journal.statuses()
    missing = [cell for key, cell in cells.items() if key not in known]
    return len(cells), len(missing), cost.seconds(missing)


def reproduce(
    chosen: Sequence[Entry],
    out: Path,
    executor: Executor,
    *,
    quick: bool = True,
    retry: bool = False,
    progress: Progress | None = None,
    done: Callable[[Reproduced], None] | None = None,
) -> list[Reproduced]:
    """Run what is missing and write every entry as soon as its last cell is there."""
    ink.need_matplotlib()
    if not chosen:
        raise UsageError("name at least one entry; see `rote reproduce --list`.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to {out}: {error.strerror or error}.") from None
    mine = {entry.key: entry.cells(quick=quick) for entry in chosen}
    every: dict[str, Work] = {}
    for cells in mine.values():
        # The longest first: at the end of an entry no worker waits long for another.
        for cell in sorted(cells, key=cost.cell_seconds, reverse=True):
            every.setdefault(cell.hash, cell)
    found: list[Reproduced] = []
    with Journal(out / "journal.db") as journal:
        statuses = journal.statuses()
        finished = {key for key in every if key in statuses and not (retry and statuses[key] != "done")}
        waiting = list(chosen)
        wrong: list[str] = []

        def settle() -> None:
            for entry in list(waiting):
                if all(cell.hash in finished for cell in mine[entry.key]):
                    waiting.remove(entry)
                    try:
                        made = write_entry(entry, mine[entry.key], journal, out, quick=quick)
                    except UsageError as error:
                        # The cells of the other entries still count; what is wrong with this one is said at the end.
                        wrong.append(f"{entry.key}: {error}")
                        continue
                    found.append(made)
                    if done is not None:
                        done(made)

        def after(group: Group) -> None:
            finished.update(cell.hash for cell in group.cells)
            settle()

        settle()
        sweep = Sweep(chosen[0].key if len(chosen) == 1 else "reproduce", tuple(every.values()))
        run_sweep(sweep, journal, executor, retry=retry, progress=progress, after=after)
        settle()
    if wrong:
        raise UsageError(wrong[0])
    return found


def decide(entry: Entry, table: Table) -> tuple[str, str, dict[str, Any]]:
    """Verdict, why, and the numbers of all tests of an entry; without a test that decides it is undecided."""
    numbers: dict[str, Any] = {}
    verdicts: list[Verdict] = []
    for spec in entry.tables("test"):
        made = get_claim(str(spec["kind"])).decide(table, spec)
        prefix = f"{spec['name']}_" if spec.get("name") else ""
        numbers |= {f"{prefix}{key}": value for key, value in made.numbers.items()}
        numbers[f"{prefix}verdict"] = made.verdict
        if spec.get("decides", True):
            verdicts.append(made)
    for word in ("does not hold", "undecided"):
        for made in verdicts:
            if made.verdict == word:
                return word, made.why, numbers
    if not verdicts:
        return "undecided", "no test decides it", numbers
    return "holds", "; ".join(made.why for made in verdicts), numbers


def write_entry(entry: Entry, cells: Sequence[Work], journal: Journal, out: Path, *, quick: bool) -> Reproduced:
    """rows.csv, the figures and entry.json of one entry, each written whole."""
    folder = out / entry.key
    folder.mkdir(parents=True, exist_ok=True)
    statuses = journal.statuses()
    wanted = {cell.hash for cell in cells}
    rows = [row for row in journal.rows() if row["hash"] in wanted]
    bad = sum(statuses.get(cell.hash) != "done" for cell in cells)
    spent = {row["hash"]: float(row["duration"]) for row in rows}
    table = make_table(entry, cells, rows)
    verdict, why, numbers = decide(entry, table) if table.records else ("undecided", "no cell is done", {})
    words = entry.record.get("words", {})
    template = words.get(_SPELLED[verdict], f"The claim {verdict}: {{why}}.")
    answers = words.get("answer", "")
    if isinstance(answers, dict):
        answers = answers.get(_SPELLED[verdict], "")
    facts = {**numbers, "why": why, "verdict": verdict}
    figures = []
    for index, spec in enumerate(entry.tables("figure")):
        name = str(spec.get("name", "figure" if index == 0 else f"figure{index + 1}"))
        figure = make_figure(table, {"title": entry.title, **spec}, facts)
        figure.write(folder / f"{name}.json")
        for kind in ink.FORMATS:
            ink.draw(figure, folder / f"{name}.{kind}")
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
        "versions": _versions(),
        "seconds": round(sum(spent.values()), 3),
        "cells": {"done": len(cells) - bad, "failed": bad},
        "config": dict(entry.record),
        "numbers": {name: _kept(value) for name, value in numbers.items()},
        "figures": figures,
    }
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n"
    write_atomically(folder / "entry.json", lambda part: _put(part, text))
    return Reproduced(entry, folder, record)


def _kept(value: Any) -> Any:
    """JSON has no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _put(part: Path, text: str) -> None:
    part.write_text(text, encoding="utf-8")


def _versions() -> dict[str, str]:
    import numpy as np
    import torch

    return {
        "rote": __version__,
        "torch": str(torch.__version__),
        "numpy": str(np.__version__),
        "python": platform.python_version(),
    }
