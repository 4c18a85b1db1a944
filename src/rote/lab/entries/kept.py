"""Rows that were kept where single cells were not: judged again by the tests of today, alone or beside new cells.

Every test rests on means, variances and counts of seeds, and rows.csv has all three (a 95 % interval over n seeds is as
good as a variance). So a row stands for n values with its mean and its variance: half of them the same distance above
the mean, half below, and one on it where n is odd.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rote.errors import DataError
from rote.lab.entries.entry import Entry
from rote.lab.entries.published import beside, published_rows
from rote.lab.entries.table import COLUMNS, Table
from rote.lab.entries.writing import Reproduced, books_of, write_record
from rote.measurement import Cell
from rote.measurement.sweeps import Work

__all__ = ["find_rows", "judge_again"]

_OURS = ("ours", "ours_low", "ours_high", "ours_seeds", "difference")
_PLACE = (
    "source", "family", "n_heads", "d_model", "d_head", "context", "vocab", "n_layers", "d_mlp", "task", "sharing",
    "n_facts",
)  # fmt: skip
"""What tells rows of cells apart."""


def find_rows(kept: Path, entry: Entry, *, quick: bool) -> Path | None:
    """The rows of an entry in a folder of results, if they are of this grid."""
    rows, told = kept / entry.key / "rows.csv", kept / entry.key / "entry.json"
    if not rows.is_file() or not told.is_file():
        return None
    return rows if _told(told)["mode"] == ("quick" if quick else "full") else None


def _told(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict) or not {"mode", "cells", "seconds", "versions"} <= record.keys():
            raise ValueError("it is no record of an entry")
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {error}; restore it, or run the entry again.") from error
    return record


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _spread(row: Mapping[str, Any], name: str) -> float:
    """The standard deviation over seeds, from the interval of the mean."""
    from scipy.stats import t

    n = int(row["seeds"])
    reach = (row[f"{name}_high"] - row[f"{name}_low"]) / 2
    return float(reach * math.sqrt(n) / t.ppf(0.975, n - 1))


def _members(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Seeds with the mean and the variance of a row."""
    n = int(row["seeds"])
    plain = {name: value for name, value in row.items() if name not in ("low", "high", "seeds", *_OURS)}
    spans = [name for name in plain if f"{name}_low" in plain and f"{name}_high" in plain]
    plain = {name: value for name, value in plain.items() if name.removesuffix("_low") not in spans}
    plain = {name: value for name, value in plain.items() if name.removesuffix("_high") not in spans}
    members = []
    pairs = n // 2
    for seed in range(n):
        side = 0.0 if seed == 2 * pairs else 1.0 if seed % 2 else -1.0
        step = side * math.sqrt((n - 1) / (2 * pairs)) if pairs else 0.0
        own = {name: row[name] + step * _spread(row, name) for name in spans}
        members.append({**plain, **own, "seed": seed})
    return members


def _read(entry: Entry, path: Path) -> list[dict[str, Any]]:
    """Our own rows of a rows.csv."""
    with path.open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    if not lines or not set(COLUMNS) <= set(lines[0]):
        raise DataError(f"{path} has no rows of an entry: it must have the columns {', '.join(COLUMNS)}.")
    rows = [{name: _value(text) for name, text in line.items() if text} for line in lines]
    return [row for row in rows if row.get("source") != "published"]


def _row_place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in _PLACE)


def _covers(row: Mapping[str, Any], cell: Work) -> bool:
    """Whether a cell belongs to a row: by its shape and recipe, or by all parameters of its study."""
    if not isinstance(cell, Cell):
        asked = {name: value for name, value in cell.to_dict().items() if name not in ("study", "seed")}
        return all(row.get(name) == value for name, value in asked.items())
    told = {
        **cell.to_dict(),
        "source": f"train:{cell.recipe}" if cell.by == "train" else f"build:{cell.by}",
        "family": cell.spec.family,
        "d_head": cell.arch.d_head,
        "n_facts": (cell.n_facts or cell.most) if cell.task == "recall" else None,
    }
    return _row_place(row) == _row_place(told)


def judge_again(
    entry: Entry, path: Path, out: Path, *, quick: bool, fresh: Table | None = None, known: Mapping[str, str]
) -> Reproduced:
    """The files of an entry anew: cells of a journal (`fresh`, and their statuses), and kept rows where it has none.

    A place is taken from the journal where that has as many seeds. What was run, and when, is what the record of the
    kept rows says.
    """
    told = _told(path.parent / "entry.json")
    rows = list(fresh.rows) if fresh else []
    seeds = {_row_place(row): int(row["seeds"]) for row in rows if row["source"] != "published"}
    kept = [row for row in _read(entry, path) if int(row["seeds"]) > seeds.get(_row_place(row), 0)]
    taken = {_row_place(row) for row in kept}
    mine = [row for row in rows if row["source"] != "published" and _row_place(row) not in taken]
    records = [one for one in (fresh.records if fresh else ()) if _row_place(one) not in taken]
    value = str(entry.record.get("value") or "")
    value = value or ("capacity" if any("capacity" in row for row in kept) else "published_metric")
    own = [*mine, *kept]
    printed: list[dict[str, Any]] = []
    for spec in entry.tables("published"):
        printed += beside(published_rows(entry.folder, spec), own, spec, value)
    table = Table((*records, *(member for row in kept for member in _members(row))), (*own, *printed), value)
    books: dict[str, Any] = {name: told[name] for name in ("versions", "seconds", "cells", "missing") if name in told}
    if fresh is not None:
        cells = entry.cells(quick=quick)
        left = [int(row["seeds"]) for row in kept]
        statuses = dict(known)
        for cell in cells:
            index = next((i for i, row in enumerate(kept) if left[i] and _covers(row, cell)), None)
            if index is not None:
                left[index] -= 1
                statuses.setdefault(cell.hash, "done")
        spent = sum(float(row["duration"]) * int(row["seeds"]) for row in own if "duration" in row)
        books = books_of(cells, statuses, spent)
    return write_record(entry, table, out, quick=quick, books=books)
