"""Results for the runs page, read by a worker: how sweeps stand, fits, and the report."""

from __future__ import annotations

import hashlib
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rote.errors import DataError, RoteError

__all__ = ["TASKS"]

Notice = Callable[[dict[str, Any]], None]
_X = ("n_heads", "d_model", "d_head", "context", "vocab", "n_layers", "d_mlp", "n_facts")
_Y = ("capacity", "share", "published")
_ALSO = ("recipe", "by", "family", "task", "steps", "rate", "sharing", "dtype", "recall")
_LATEST = 12
_MOST_GRID_BYTES = 200_000
_read: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
_grids: dict[tuple[str, int], list[tuple[str, bool, frozenset[str]]]] = {}


def _journal(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    """Every sweep in a file: what is done, what is left of the grids beside it, how fast it goes, the newest rows."""
    from rote.analyse.fit.points import is_number

    rows = _rows(args, [])
    names = dict.fromkeys(str(row["sweep"]) for row in rows)
    grids = [grid for path in args["grids"] for grid in _grid(Path(path))]
    return {
        "rows": len(rows),
        "sweeps": [_sweep(name, [row for row in rows if row["sweep"] == name], grids) for name in names],
        "open": _is_open(Path(args["path"])),
        "varying": _varying(rows),
        "y": [name for name in _Y if any(is_number(row.get(name)) for row in rows)],
    }


def _rows(args: Mapping[str, Any], where: Sequence[str]) -> list[dict[str, Any]]:
    from rote.measurement.where import select

    return list(select(_all_rows(Path(args["path"])), list(where)))


def _all_rows(path: Path) -> list[dict[str, Any]]:
    """Every row. SQLite leaves files beside a database that it opens, so one that nobody writes to is copied first."""
    from rote.measurement import Journal

    if _is_open(path):
        with Journal(path, write=False) as journal:
            return list(journal.rows())
    try:
        stat = path.stat()
        key = (str(path), stat.st_mtime_ns, stat.st_size)
        if key not in _read:
            with tempfile.TemporaryDirectory() as scratch:
                copy = Path(scratch) / "journal.db"
                copy.write_bytes(path.read_bytes())
                with Journal(copy, write=False) as journal:
                    rows = list(journal.rows())
            _read.clear()
            _read[key] = rows
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {error.strerror or error}.") from None
    return _read[key]


def _is_open(path: Path) -> bool:
    """Whether somebody writes to it, or was killed while writing."""
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def _sweep(name: str, rows: list[dict[str, Any]], grids: Sequence[tuple[str, bool, frozenset[str]]]) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    known = {str(row["hash"]) for row in rows}
    beside = [
        {"quick": quick, "total": len(cells), "known": len(cells & known), "whole": known <= cells}
        for of, quick, cells in grids
        if of == name and cells & known
    ]
    times = sorted(_when(row["finished"]) for row in rows)
    now = datetime.now(UTC).timestamp()
    # The pace of the last hour of work: old rows of a sweep that was resumed say nothing about it.
    recent = [moment for moment in times if moment > times[-1] - 3600]
    span = recent[-1] - recent[0]
    newest = sorted(rows, key=lambda row: str(row["finished"]), reverse=True)[:_LATEST]
    return {
        "name": name,
        "counts": counts,
        "grids": beside,
        "since_last": max(0.0, now - times[-1]),
        "pace": (len(recent) - 1) / span if span > 0 else None,
        "spent": sum(float(row["duration"]) for row in rows),
        "newest": [{key: _shown(row.get(key)) for key in _columns(newest)} for row in newest],
    }


def _when(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns that say something: shape and results, where one of the rows has a value."""
    wanted = (*_X, "recipe", "by", "seed", "status", *_Y, "params", "duration", "reason", "finished")
    return [name for name in wanted if any(row.get(name) not in (None, "") for row in rows)]


def _shown(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value if isinstance(value, (int, str)) or value is None else str(value)


def _varying(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Columns of the shape that take several values, and which."""
    varying: dict[str, list[Any]] = {}
    for name in (*_X, *_ALSO):
        values = {row.get(name) for row in rows if row.get("status") == "done" and not isinstance(row.get(name), list)}
        if len(values) > 1:
            varying[name] = sorted(values, key=lambda value: (value is None, str(type(value)), value))[:200]
    return varying


def _grid(path: Path) -> Iterator[tuple[str, bool, frozenset[str]]]:
    """The cells of a TOML file, in full and quick; files that are no sweeps are passed over."""
    from rote.measurement import read_sweep

    try:
        stat = path.stat()
    except OSError:
        return
    key = (str(path), stat.st_mtime_ns)
    if key not in _grids:
        grids = []
        for quick in (False, True) if stat.st_size <= _MOST_GRID_BYTES else ():
            try:
                sweep = read_sweep(path, quick=quick)
            except (RoteError, TypeError, ValueError):
                continue
            grids.append((sweep.name, quick, frozenset(cell.hash for cell in sweep.cells)))
        _grids[key] = grids
    yield from _grids[key]


def _fit(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    """A law with its figure, and what the theorems predict at the same places."""
    from rote.analyse.fit import fit
    from rote.web.figures import figure_answer

    before = time.perf_counter()
    law = fit(_rows(args, args["where"]), args["x"], args["y"], law=args["law"])
    return {**law.to_dict(), "figure": figure_answer(law.figure()), "seconds": time.perf_counter() - before}


def _lasting(path: Path, out: Path) -> Path:
    """A source for the report: folders as they are, a database that nobody writes to as a copy of the same name."""
    if path.is_dir() or _is_open(path):
        return path
    place = out.with_suffix("") / hashlib.sha256(str(path).encode()).hexdigest()[:8]
    place.mkdir(parents=True, exist_ok=True)
    (place / path.name).write_bytes(path.read_bytes())
    return place / path.name


def _report(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    """One page from results and reproduced figures, by `rote.lab.report`."""
    from rote.lab.report import report

    out = Path(args["out"])
    page = report([_lasting(Path(path), out) for path in args["sources"]], out)
    shutil.rmtree(out.with_suffix(""), ignore_errors=True)
    return {"bytes": page.n_bytes, "sections": len(page.sections)}


TASKS: dict[str, Callable[[dict[str, Any], Notice], Any]] = {"journal": _journal, "fit": _fit, "report": _report}
