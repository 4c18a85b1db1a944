"""Sweeps: a TOML file becomes a grid of cells; what the journal lacks is run, and every result is a row.

name = "heads"
seeds = 5                       # the axis seed = [0, 1, 2, 3, 4]
[base]                          # what all cells have in common
d_model = 10
[grid]                          # axes; or several [[grid]] tables, whose cells are put together
n_heads = [1, 6, 11, 16]
[quick]                         # axes, base values or seeds that replace the others with --quick
n_heads = [1, 6]
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rote.errors import DataError, RoteError, UnknownName, UsageError
from rote.measure.cell import Cell
from rote.measure.journal import Journal

__all__ = ["Executor", "Group", "Progress", "Sweep", "read_sweep", "run_sweep"]

_MOST_CELLS = 1_000_000
_TOP = ("name", "seeds", "base", "grid", "quick")
_KEYS = tuple(item.name for item in dataclasses.fields(Cell))


@dataclass(frozen=True)
class Group:
    """Cells that differ only in their seeds: one stack, and one transaction."""

    cells: tuple[Cell, ...]

    def records(self) -> list[dict[str, Any]]:
        return [cell.to_dict() for cell in self.cells]


@dataclass(frozen=True)
class Sweep:
    """A named list of cells, no two alike."""

    name: str
    cells: tuple[Cell, ...]

    def groups(self, finished: Mapping[str, str], *, retry: bool = False) -> list[Group]:
        """What is left to do: the cells without a row (or, with `retry`, without success), by group."""
        left: dict[str, list[Cell]] = {}
        for cell in self.cells:
            status = finished.get(cell.hash)
            if status is None or (retry and status != "done"):
                left.setdefault(cell.group, []).append(cell)
        return [Group(tuple(cells)) for cells in left.values()]


def read_sweep(path: str | Path, *, quick: bool = False) -> Sweep:
    """The cells of a TOML file; every mistake in it is refused by name."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"there is no file {file}; check the path.") from None
    except UnicodeDecodeError:
        raise DataError(f"{file} is not UTF-8 text; a sweep is a TOML file.") from None
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror or error}.") from None
    try:
        record = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{file} is no valid TOML: {error}.") from None
    try:
        return _sweep(record, file.stem, quick)
    except RoteError as error:
        raise _placed(file, error) from None


def _placed(file: Path, error: RoteError) -> RoteError:
    """The same refusal with the file's name in front."""
    error.args = (f"{file}: {error}",)
    return error


def _sweep(record: Mapping[str, Any], stem: str, quick: bool) -> Sweep:
    for key in record:
        if key not in _TOP:
            place = " (keys of cells go under [base] or [grid])" if key in _KEYS else ""
            raise UsageError(f"there is no top-level key {key!r}{place}; known: {', '.join(_TOP)}.")
    name = record.get("name", stem)
    if not isinstance(name, str) or not name:
        raise UsageError(f"name must be a text, got {name!r}.")
    base = _table(record.get("base", {}), "base")
    grids = record.get("grid", {})
    tables = [_table(one, "grid") for one in (grids if isinstance(grids, list) else [grids])]
    seeds = record.get("seeds")
    if quick:
        if "quick" not in record:
            raise UsageError("there is no [quick] table; write one with the smaller axes, or leave out --quick.")
        smaller = dict(_table(record["quick"], "quick", extra=("seeds",)))
        seeds = smaller.pop("seeds", seeds)
        tables = [{**one, **{k: v for k, v in smaller.items() if isinstance(v, list)}} for one in tables]
        base = {**base, **{k: v for k, v in smaller.items() if not isinstance(v, list)}}
        tables = [{k: v for k, v in one.items() if k not in base or isinstance(smaller.get(k), list)} for one in tables]
    elif "quick" in record:
        _table(record["quick"], "quick", extra=("seeds",))
    cells: dict[str, Cell] = {}
    for one in tables:
        for cell in _expand(base, one, seeds):
            if cell.hash in cells:
                raise UsageError(f"the cell {_short(cell)} occurs twice; remove one of them.")
            cells[cell.hash] = cell
    return Sweep(name, tuple(cells.values()))


def _table(value: object, where: str, extra: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"[{where}] must be a table, got {value!r}.")
    for key in value:
        if key not in (*_KEYS, *extra):
            raise UnknownName(f"key in [{where}]", key, (*_KEYS, *extra))
    return value


def _expand(base: Mapping[str, Any], grid: Mapping[str, Any], seeds: object) -> Iterator[Cell]:
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
        yield Cell.from_dict({**base, **dict(zip(axes, chosen, strict=True))})


def _short(cell: Cell) -> str:
    d_head = "" if cell.d_head is None else f", d_head {cell.d_head}"
    return f"(n_heads {cell.n_heads}, d_model {cell.d_model}{d_head}, vocab {cell.vocab}, seed {cell.seed})"


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
        made = self.done + self.failed
        return (time.monotonic() - self.began) / made * (self.left + self.running) if made else None

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
) -> Progress:
    """Run what is missing and write every group as soon as it is there; returns how it went."""
    shown = progress or Progress()
    finished = journal.statuses()
    groups = sweep.groups(finished, retry=retry)
    shown.total = len(sweep.cells)
    shown.known = shown.total - sum(len(group.cells) for group in groups)
    shown.began = time.monotonic()
    best = -math.inf
    shown.show()
    for index, results in executor.results(groups, shown):
        cells = groups[index].cells
        before = time.perf_counter()
        journal.put(sweep.name, cells, results)
        shown.book_seconds += time.perf_counter() - before
        for cell, result in zip(cells, results, strict=True):
            shown.running = max(0, shown.running - 1)
            if result["status"] != "done":
                shown.failed += 1
                if fail_fast:
                    raise UsageError(f"the cell {_short(cell)} {result['status']}: {result['reason'].rstrip('.')}.")
                continue
            shown.done += 1
            value = float(result.get("capacity", result.get("share", -math.inf)))
            if value > best:
                best = value
                words = f"{result['capacity']:,} facts" if "capacity" in result else f"recall {value:.4g}"
                shown.best = f"{words} {_short(cell)}"
        shown.show()
    return shown
