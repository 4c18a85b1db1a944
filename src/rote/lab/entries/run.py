"""The driver: cells that the journal lacks are run, and every entry whose cells are there is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote.data.arguments import checked
from rote.errors import OutputError, UsageError
from rote.lab.entries import cost
from rote.lab.entries.cells import adopt, find_cells, write_cells
from rote.lab.entries.entry import Entry, find_entries
from rote.lab.entries.kept import find_rows, judge_again
from rote.lab.entries.table import make_table
from rote.lab.entries.writing import Reproduced, books_of, write_record
from rote.measurement import Journal, Sweep, run_sweep
from rote.measurement.executors import executor_of
from rote.measurement.machine import cores, duration
from rote.measurement.sweeps import Executor, Group, Progress, Work
from rote.plot import Grid, Sheet, Shown
from rote.plot.draw import need_matplotlib

__all__ = [
    "Catalogue",
    "Reproduced",
    "catalogue",
    "estimate",
    "reproduce",
    "run_entries",
    "take_over",
    "write_entry",
]


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
        return write_entries(chosen, out, quick=not full, done=done, kept=None if kept is None else Path(kept))
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
    chosen: Sequence[Entry],
    out: Path,
    *,
    quick: bool,
    done: Callable[[Reproduced], None] | None = None,
    kept: Path | None = None,
) -> list[Reproduced]:
    """Write entries from the cells that the journal of `out` has, or else from rows in the folder `kept`.

    Entries of which there is neither are left out.
    """
    need_matplotlib()
    path = out / "journal.db"
    if not path.is_file():
        raise UsageError(f"{out} has no journal.db, so there is nothing to write; run the entries first.")
    written = []
    with Journal(path, write=False) as journal:
        statuses = journal.statuses()
        for entry in chosen:
            cells = entry.cells(quick=quick)
            rows = None if kept is None else find_rows(kept, entry, quick=quick)
            there = any(cell.hash in statuses for cell in cells)
            if rows is not None:
                fresh = make_table(entry, cells, _rows_of(cells, journal)) if there else None
                written.append(judge_again(entry, rows, out, quick=quick, fresh=fresh, known=statuses))
                _keep_cells(entry, journal, out)
            elif there:
                written.append(write_entry(entry, cells, journal, out, quick=quick))
            else:
                continue
            if done is not None:
                done(written[-1])
    if not written:
        raise UsageError(f"{path} has no cell of these entries; run them first.")
    return written


def write_entry(entry: Entry, cells: Sequence[Work], journal: Journal, out: Path, *, quick: bool) -> Reproduced:
    """The files of one entry, from the cells that a journal has, and cells.csv with all of them."""
    rows = _rows_of(cells, journal)
    spent = {row["hash"]: float(row["duration"]) for row in rows}
    books = books_of(cells, journal.statuses(), sum(spent.values()))
    reproduced = write_record(entry, make_table(entry, cells, rows), out, quick=quick, books=books)
    _keep_cells(entry, journal, out)
    return reproduced


def _rows_of(cells: Sequence[Work], journal: Journal) -> list[dict[str, Any]]:
    wanted = {cell.hash for cell in cells}
    return [row for row in journal.rows() if row["hash"] in wanted]


def _keep_cells(entry: Entry, journal: Journal, out: Path) -> None:
    """Cells of both grids, so that a quick run after a full one loses nothing."""
    write_cells(out / entry.key, journal, {cell.hash for mode in (True, False) for cell in entry.cells(quick=mode)})
