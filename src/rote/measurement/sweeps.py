"""Sweeps: a TOML file becomes a grid of cells; what the journal lacks is run, and every result is a row.

name = "heads"
seeds = 5                       # the axis seed = [0, 1, 2, 3, 4]
[base]                          # what all cells have in common
d_model = 10
[grid]                          # axes; or several [[grid]] tables, whose cells are put together
n_heads = [1, 6, 11, 16]
[quick]                         # axes, base values or seeds that replace the others where it must be quick
n_heads = [1, 6]
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rote.data.arguments import checked
from rote.data.contents import as_path
from rote.data.records import read_toml
from rote.errors import RoteError, UsageError, check_names
from rote.measurement.cell import Cell
from rote.measurement.journal import Journal
from rote.measurement.machine import duration
from rote.measurement.results import Results, results
from rote.plot import Sheet, Shown

__all__ = [
    "Executor",
    "Group",
    "Progress",
    "Sweep",
    "Swept",
    "Work",
    "cells_of",
    "read_sweep",
    "records_of",
    "run_sweep",
    "sweep",
]

_MOST_CELLS = 1_000_000
_TOP = ("name", "seeds", "base", "grid", "quick")
_KEYS = tuple(item.name for item in dataclasses.fields(Cell))


class Work(Protocol):
    """What can be run and kept: a `Cell`, or anything else with a content hash and a function that runs its records."""

    @property
    def seed(self) -> int: ...

    @property
    def hash(self) -> str: ...

    @property
    def group(self) -> str: ...

    @property
    def short(self) -> str: ...

    @property
    def runner(self) -> Callable[..., list[dict[str, Any]]]: ...

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Group:
    """Cells that differ only in their seeds: one stack, and one transaction."""

    cells: tuple[Work, ...]

    @property
    def runner(self) -> Callable[..., list[dict[str, Any]]]:
        """A function of a module, so that other processes and machines find it by name."""
        return self.cells[0].runner

    def records(self) -> list[dict[str, Any]]:
        return [cell.to_dict() for cell in self.cells]


@dataclass(frozen=True, repr=False)
class Sweep:
    """A named list of cells, no two alike."""

    name: str
    cells: tuple[Work, ...]

    def __repr__(self) -> str:
        return f"Sweep({self.name}: {len(self.cells):,} cells)"

    def groups(self, finished: Mapping[str, str], *, retry: bool = False) -> list[Group]:
        """What is left to do: the cells without a row (or, with `retry`, without success), by group."""
        left: dict[str, list[Work]] = {}
        for cell in self.cells:
            status = finished.get(cell.hash)
            if status is None or (retry and status != "done"):
                left.setdefault(cell.group, []).append(cell)
        return [Group(tuple(cells)) for cells in left.values()]


def read_sweep(path: str | Path, *, quick: bool = False) -> Sweep:
    """The cells of a TOML file; every mistake in it is refused by name."""
    file = as_path(path, "a sweep")
    record = read_toml(file)
    try:
        return _sweep(record, file.stem, quick)
    except RoteError as error:
        error.args = (f"{file}: {error}",)
        raise error from None


def _sweep(record: Mapping[str, Any], stem: str, quick: bool) -> Sweep:
    for key in record:
        if key not in _TOP:
            place = " (keys of cells go under [base] or [grid])" if key in _KEYS else ""
            raise UsageError(f"there is no top-level key {key!r}{place}; known: {', '.join(_TOP)}.")
    name = record.get("name", stem)
    if not isinstance(name, str) or not name:
        raise UsageError(f"name must be a text, got {name!r}.")
    return Sweep(name, tuple(cells_of(record, quick=quick)))


def cells_of(record: Mapping[str, Any], *, quick: bool = False) -> list[Cell]:
    """The cells of tables `base`, `grid`, `quick` and of `seeds`; no two alike."""
    cells: dict[str, Cell] = {}
    for one in records_of(record, _KEYS, quick=quick):
        cell = Cell.from_dict(one)
        if cell.hash in cells:
            raise UsageError(f"the cell {cell.short} occurs twice; remove one of them.")
        cells[cell.hash] = cell
    return list(cells.values())


def records_of(record: Mapping[str, Any], keys: Collection[str], *, quick: bool = False) -> list[dict[str, Any]]:
    """The products of the axes of `grid` over `base` and `seeds`, or those of `quick`; only `keys` may occur."""
    base = _table(record.get("base", {}), "base", keys)
    grids = record.get("grid", {})
    tables = [_table(one, "grid", keys) for one in (grids if isinstance(grids, list) else [grids])]
    seeds = record.get("seeds")
    if quick:
        if "quick" not in record:
            raise UsageError("there is no [quick] table; write one with the smaller axes, or run the whole grid.")
        smaller = dict(_table(record["quick"], "quick", (*keys, "seeds")))
        seeds = smaller.pop("seeds", seeds)
        tables = [{**one, **{k: v for k, v in smaller.items() if isinstance(v, list)}} for one in tables]
        base = {**base, **{k: v for k, v in smaller.items() if not isinstance(v, list)}}
        tables = [{k: v for k, v in one.items() if k not in base or isinstance(smaller.get(k), list)} for one in tables]
    elif "quick" in record:
        _table(record["quick"], "quick", (*keys, "seeds"))
    return [one for table in tables for one in _expand(base, table, seeds)]


def _table(value: object, where: str, keys: Collection[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"[{where}] must be a table, got {value!r}.")
    check_names(f"key in [{where}]", value, keys)
    return value


def _expand(base: Mapping[str, Any], grid: Mapping[str, Any], seeds: object) -> Iterator[dict[str, Any]]:
    axes: dict[str, list[Any]] = {}
    for key, values in grid.items():
        if key in base:
            raise UsageError(f"{key} is both in [base] and in [grid]; leave it in one of them.")
        if not isinstance(values, list):
            raise UsageError(f"{key} in [grid] must be a list of values, got {values!r}; single values go into [base].")
        if not values:
            raise UsageError(f"{key} in [grid] has no values, so there would be no cells; give at least one.")
        axes[key] = values
    if seeds is not None:
        if "seed" in axes or "seed" in base:
            raise UsageError("give either seeds (how many) or seed (which), and not both.")
        if isinstance(seeds, bool) or not isinstance(seeds, int) or not 1 <= seeds <= _MOST_CELLS:
            raise UsageError(f"seeds must be a whole number from 1, got {seeds!r}.")
        axes["seed"] = list(range(seeds))
    count = math.prod(len(values) for values in axes.values())
    if count > _MOST_CELLS:
        raise UsageError(f"the grid has {count:,} cells, more than {_MOST_CELLS:,}; split it.")
    for chosen in itertools.product(*axes.values()):
        yield {**base, **dict(zip(axes, chosen, strict=True))}


class Executor(Protocol):
    """Where groups are run. Results come back in any order; whoever runs them writes nothing."""

    def results(self, groups: Sequence[Group], progress: Progress) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Yield (index of the group, its results) until all are there."""
        ...


@dataclass
class Progress:
    """How a sweep stands; displays read it, the driver and the executors write it."""

    total: int = 0
    known: int = 0
    """Cells that had a row before this run."""
    done: int = 0
    failed: int = 0
    running: int = 0
    best: str = ""
    began: float = field(default_factory=time.monotonic)
    book_seconds: float = 0.0
    """Spent on the journal and on the display."""
    draw: Any = None

    @property
    def left(self) -> int:
        return self.total - self.known - self.done - self.failed - self.running

    def to_go(self) -> float | None:
        """Seconds to go at the pace so far."""
        over = self.done + self.failed
        return (time.monotonic() - self.began) / over * (self.left + self.running) if over else None

    def line(self) -> str:
        """How it stands, in words."""
        parts = [f"{self.known + self.done + self.failed:,} of {self.total:,} cells done"]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        parts += [f"{self.running:,} running", f"{self.left:,} left", f"{duration(self.to_go())} to go"]
        return ", ".join([*parts, f"best {self.best}"] if self.best else parts)

    def show(self) -> None:
        if self.draw is not None:
            before = time.perf_counter()
            self.draw(self)
            self.book_seconds += time.perf_counter() - before


def run_sweep(
    sweep: Sweep,
    journal: Journal,
    executor: Executor,
    *,
    retry: bool = False,
    fail_fast: bool = False,
    progress: Progress | None = None,
    after: Callable[[Group], None] | None = None,
) -> Progress:
    """Run what is missing and write every group as soon as it is there; returns how it went.

    `after` is called with every group whose results are in the journal.
    """
    shown = progress or Progress()
    finished = journal.statuses()
    groups = sweep.groups(finished, retry=retry)
    shown.total = len(sweep.cells)
    shown.known = shown.total - sum(len(group.cells) for group in groups)
    shown.began = time.monotonic()
    best = -math.inf
    shown.show()
    for index, outcomes in executor.results(groups, shown):
        cells = groups[index].cells
        before = time.perf_counter()
        journal.put(sweep.name, cells, outcomes)
        shown.book_seconds += time.perf_counter() - before
        for cell, result in zip(cells, outcomes, strict=True):
            shown.running = max(0, shown.running - 1)
            if result["status"] != "done":
                shown.failed += 1
                if fail_fast:
                    raise UsageError(f"the cell {cell.short} {result['status']}: {result['reason'].rstrip('.')}.")
                continue
            shown.done += 1
            value = float(result.get("capacity", result.get("share", -math.inf)))
            if value > best:
                best = value
                words = f"{result['capacity']:,} facts" if "capacity" in result else f"recall {value:.4g}"
                shown.best = f"{words} {cell.short}"
        shown.show()
        if after is not None:
            after(groups[index])
    return shown


@dataclass(frozen=True, repr=False)
class Swept(Shown):
    """How a sweep went: counts of cells, the time, and where the results are."""

    name: str
    db: Path
    cells: int
    known: int
    """Cells that had a result before."""
    done: int
    failed: int
    not_done: int
    """Cells without a result now, of this run or of one before."""
    seconds: float
    bookkeeping_seconds: float
    best: str = ""

    def results(self, where: Iterable[str] = ()) -> Results:
        """The rows of the file."""
        return results(self.db, where)

    def sheet(self) -> Sheet:
        lines = [f"Best now: {self.best}."] if self.best else []
        if self.not_done:
            lines.append(f"{self.not_done:,} cells of {self.db} have no result: their status is not done.")
        return Sheet(self.name, f": {self._counts}, in {duration(self.seconds)}.", lines=tuple(lines))

    @property
    def _counts(self) -> str:
        return f"{self.cells:,} cells, {self.known:,} known before, {self.done:,} done now, {self.failed:,} failed"

    def __repr__(self) -> str:
        return f"Swept({self.name}: {self._counts}; {self.db})"

    def to_dict(self) -> dict[str, Any]:
        record = {key: value for key, value in dataclasses.asdict(self).items() if key not in ("name", "best")}
        return {"sweep": self.name, **record, "db": str(self.db)}


@checked
def sweep(
    source: str | Path | Mapping[str, Any] | Sweep,
    db: str | Path,
    *,
    quick: bool = False,
    on: str = "local",
    address: str | None = None,
    jobs: int = 1,
    retry_failed: bool = False,
    fail_fast: bool = False,
    max_memory: int | str | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Swept:
    """Run every cell of a grid that has no result yet, and keep the results in the file `db`, which is made if missing.

    `source` is a TOML file, or its tables as a mapping: name, seeds, base, grid, quick. With `quick` the grid is the
    smaller one of the table quick. `on` is local, with so many processes (`jobs`), or ray, on the cluster at `address`
    or on one that is started here. Run it again after an interruption, a crash or a change of the grid: nothing is done
    twice. Cells that fail are rows too; `retry_failed` runs them again, `fail_fast` stops at the first.

        >>> sweep({"seeds": 3, "base": {"d_model": 4, "context": 2, "vocab": 12}, "grid": {"n_heads": [1, 2, 4]}},
        ...       "heads.db")  # doctest: +SKIP
        Swept(sweep: 9 cells, 0 known before, 9 done now, 0 failed; heads.db)
    """
    from rote.measurement.executors import executor_of

    if isinstance(source, Sweep):
        chosen = source
    elif isinstance(source, Mapping):
        chosen = _sweep(source, "sweep", quick)
    else:
        chosen = read_sweep(source, quick=quick)
    executor = executor_of(on, address=address, jobs=jobs, max_memory=max_memory, device=device)
    began = time.monotonic()
    with Journal(db) as journal:
        went = run_sweep(chosen, journal, executor, retry=retry_failed, fail_fast=fail_fast, progress=progress)
        statuses = journal.statuses()
    return Swept(
        name=chosen.name,
        db=Path(db),
        cells=went.total,
        known=went.known,
        done=went.done,
        failed=went.failed,
        not_done=sum(statuses.get(cell.hash) != "done" for cell in chosen.cells),
        seconds=time.monotonic() - began,
        bookkeeping_seconds=went.book_seconds,
        best=went.best,
    )
