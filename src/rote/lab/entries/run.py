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
from rote.data.arguments import checked
from rote.errors import OutputError, UsageError
from rote.lab.entries import cost
from rote.lab.entries.cells import adopt, find_cells, write_cells
from rote.lab.entries.claims import Verdict, get_claim
from rote.lab.entries.entry import Entry, find_entries
from rote.lab.entries.figure import make_figure
from rote.lab.entries.sentences import fill
from rote.lab.entries.table import Table, make_table, write_csv
from rote.measurement import Journal, Sweep, run_sweep
from rote.measurement.executors import executor_of
from rote.measurement.machine import cores, duration
from rote.measurement.sweeps import Executor, Group, Progress, Work
from rote.plot import Figure, Grid, Sheet, Shown, read_figure
from rote.plot.draw import FORMATS, need_matplotlib
from rote.plot.figure import write_bytes

_TOLD = ("d_model", "n_heads", "d_head", "d_mlp", "context", "n_facts")
__all__ = [
    "Catalogue",
    "Reproduced",
    "catalogue",
    "decide",
    "estimate",
    "reproduce",
    "run_entries",
    "take_over",
    "write_entry",
]

_SPELLED = {"holds": "holds", "does not hold": "fails", "undecided": "undecided", "not judged": "not_judged"}
_NOT_JUDGED = (
    "The quick grid has other cells than the full one (fewer steps, smaller shapes), so its figure says nothing about "
    "the claim; `--full` decides it."
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


@dataclass(frozen=True, repr=False)
class Catalogue(Shown):
    """Entries with the seconds that they take on one core, about."""

    entries: tuple[dict[str, Any], ...]

    def sheet(self) -> Sheet:
        rows = tuple(
            (one["entry"], one["title"], duration(one["quick"]), duration(one["full"])) for one in self.entries
        )
        grid = Grid(("entry", "what", "quick", "full"), rows, left=("what",))
        return Sheet("Entries", grids=(grid,), notes=("Times are estimates for one core.",))

    def __repr__(self) -> str:
        return f"Catalogue({', '.join(one['entry'] for one in self.entries)})"

    def to_dict(self) -> dict[str, Any]:
        return {"entries": list(self.entries)}


def catalogue(names: str | Sequence[str] = "all") -> Catalogue:
    """What can be reproduced: entries by key, a whole paper, or all."""
    rows = []
    for entry in find_entries([names] if isinstance(names, str) else list(names)):
        times = {mode: cost.seconds(entry.cells(quick=mode == "quick")) for mode in ("quick", "full")}
        rows.append({"entry": entry.key, "title": entry.title, "claim": entry.text("claim"), **times})
    return Catalogue(tuple(rows))


@checked
def reproduce(
    names: str | Sequence[str],
    output: str | Path = "reproduced",
    *,
    full: bool = False,
    jobs: int | None = None,
    on: str = "local",
    address: str | None = None,
    retry_failed: bool = False,
    max_memory: int | str | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
    done: Callable[[Reproduced], None] | None = None,
    run: bool = True,
    kept: str | Path | None = None,
) -> list[Reproduced]:
    """Run entries, draw their figures beside the published points, and decide their claims by the tests in them.

    `names` are keys such as "dana2025/exp1", a paper ("dana2025"), "all", or a TOML file of your own; `catalogue` lists
    them. The quick grids are run unless `full`, with so many processes (`jobs`; one a core, at most 8, if not given)
    or on a Ray cluster. Interrupt it at any time: the same call goes on where it was. `done` is called with every entry
    as soon as it is written. With `run` off nothing is run: entries are written from the cells that the journal has,
    and name the others. `kept` is a folder of earlier entries (docs/results): cells that their cells.csv has are taken
    from there, and not run again.

        >>> reproduce("dana2025/exp1")  # doctest: +SKIP
        [Reproduced(dana2025/exp1, quick: holds; reproduced/dana2025/exp1)]
    """
    chosen = find_entries([names] if isinstance(names, str) else list(names))
    executor = executor_of(on, address=address, jobs=jobs or cores(), max_memory=max_memory, device=device)
    out = Path(output)
    if kept is not None:
        take_over(chosen, out, Path(kept), quick=not full)
    if not run:
        return write_entries(chosen, out, quick=not full, done=done)
    return run_entries(chosen, out, executor, quick=not full, retry=retry_failed, progress=progress, done=done)


def take_over(chosen: Sequence[Entry], out: Path, kept: Path, *, quick: bool) -> int:
    """Put cells that were kept by earlier runs into the journal of `out`; how many it had lacked."""
    if not kept.is_dir():
        raise UsageError(f"there is no folder {kept}; name one that has ENTRY/cells.csv, such as docs/results.")
    _make(out)
    count = 0
    with Journal(out / "journal.db") as journal:
        for entry in chosen:
            path = find_cells(kept / entry.key)
            if path is not None:
                wanted = {cell.hash for cell in entry.cells(quick=quick)}
                count += adopt(path, journal, wanted, entry.key)
    return count


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror or error}.") from None


def estimate(chosen: Sequence[Entry], out: Path, *, quick: bool) -> tuple[int, int, float]:
    """Cells in all, cells that are missing, and about how many seconds those take on one core."""
    cells = {cell.hash: cell for entry in chosen for cell in entry.cells(quick=quick)}
    known: Mapping[str, str] = {}
    if (out / "journal.db").is_file():
        with Journal(out / "journal.db", write=False) as journal:
            known = journal.statuses()
    missing = [cell for key, cell in cells.items() if key not in known]
    return len(cells), len(missing), cost.seconds(missing)


def run_entries(
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
    need_matplotlib()
    if not chosen:
        raise UsageError("name at least one entry: a key, a paper, or a TOML file.")
    _make(out)
    mine = {entry.key: entry.cells(quick=quick) for entry in chosen}
    every: dict[str, Work] = {}
    for cells in mine.values():
        # The longest first: at the end of an entry no worker waits long for another.
        for cell in sorted(cells, key=cost.cell_seconds, reverse=True):
            every.setdefault(cell.hash, cell)
    written: list[Reproduced] = []
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
                        outcome = write_entry(entry, mine[entry.key], journal, out, quick=quick)
                    except UsageError as error:
                        # The cells of the other entries still count; what is wrong with this one is said at the end.
                        wrong.append(f"{entry.key}: {error}")
                        continue
                    written.append(outcome)
                    if done is not None:
                        done(outcome)

        def after(group: Group) -> None:
            finished.update(cell.hash for cell in group.cells)
            settle()

        settle()
        sweep = Sweep(chosen[0].key if len(chosen) == 1 else "reproduce", tuple(every.values()))
        run_sweep(sweep, journal, executor, retry=retry, progress=progress, after=after)
        settle()
    if wrong:
        raise UsageError(wrong[0])
    return written


def write_entries(
    chosen: Sequence[Entry], out: Path, *, quick: bool, done: Callable[[Reproduced], None] | None = None
) -> list[Reproduced]:
    """Write entries from the cells that the journal of `out` has; entries of which it has none are left out."""
    need_matplotlib()
    path = out / "journal.db"
    if not path.is_file():
        raise UsageError(f"{out} has no journal.db, so there is nothing to write; run the entries first.")
    written = []
    with Journal(path, write=False) as journal:
        statuses = journal.statuses()
        for entry in chosen:
            cells = entry.cells(quick=quick)
            if any(cell.hash in statuses for cell in cells):
                written.append(write_entry(entry, cells, journal, out, quick=quick))
                if done is not None:
                    done(written[-1])
    if not written:
        raise UsageError(f"{path} has no cell of these entries; run them first.")
    return written


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


def write_entry(entry: Entry, cells: Sequence[Work], journal: Journal, out: Path, *, quick: bool) -> Reproduced:
    """rows.csv, cells.csv, the figures and entry.json of one entry, each written whole."""
    folder = out / entry.key
    folder.mkdir(parents=True, exist_ok=True)
    statuses = journal.statuses()
    wanted = {cell.hash for cell in cells}
    rows = [row for row in journal.rows() if row["hash"] in wanted]
    missing = [cell for cell in cells if cell.hash not in statuses]
    bad = sum(statuses.get(cell.hash, "done") != "done" for cell in cells)
    spent = {row["hash"]: float(row["duration"]) for row in rows}
    table = make_table(entry, cells, rows)
    verdict, why, numbers = decide(entry, table) if table.records else ("undecided", "no cell is done", {})
    words = entry.record.get("words", {})
    if not judged(entry, quick=quick):
        verdict, words = "not judged", {"not_judged": _NOT_JUDGED}
    template = words.get(_SPELLED[verdict], f"The claim {'is ' if verdict == 'undecided' else ''}{verdict}: {{why}}.")
    answers = words.get("answer", "")
    if isinstance(answers, dict):
        answers = answers.get(_SPELLED[verdict], "")
    facts = {**numbers, "why": why, "verdict": verdict}
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
    # Of both grids, so that a quick run after a full one loses nothing.
    write_cells(folder, journal, {cell.hash for mode in (True, False) for cell in entry.cells(quick=mode)})
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
        "cells": {"done": len(cells) - bad - len(missing), "failed": bad, "missing": len(missing)},
        "missing": named(missing),
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
    return not (quick and entry.text("paper") and not own_grid(entry))


def named(cells: Sequence[Work]) -> list[str]:
    """Cells in words: for every way of measuring how many, and the values of what sets them apart."""
    ways: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        record = cell.to_dict()
        way = record.get("kind") or (record.get("recipe") if record.get("by") == "train" else record.get("by"))
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
