"""Rows of an entry: every cell and seed as a record, means over seeds with intervals, published points beside them."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote.analyse.fit.points import Spot, is_number
from rote.errors import UsageError
from rote.lab.entries.derive import derive
from rote.lab.entries.entry import Entry
from rote.lab.entries.published import beside, published_rows
from rote.lab.studies import StudyCell, get_study
from rote.measurement import Cell
from rote.measurement.capacity import student_interval
from rote.measurement.sweeps import Work
from rote.measurement.where import select

__all__ = ["COLUMNS", "Spot", "Table", "make_table", "spots", "write_csv"]

COLUMNS = (
    "n_heads",
    "d_model",
    "d_head",
    "vocab",
    "context",
    "n_facts",
    "published_metric",
    "share_of_facts",
    "source",
    "seeds",
    "low",
    "high",
)
"""What every CSV has, in this order; further columns follow."""
_NAMES = {"published": "published_metric", "share": "share_of_facts", "recalled": "held"}
_CELL_KEYS = tuple(item.name for item in dataclasses.fields(Cell) if item.name != "seed")
_BOOKS = ("status", "reason", "sweep", "version", "finished", "hash", "failed_at", "tries", "diverged_tries")
_SHARES = ("published_metric", "share_of_facts")


@dataclass(frozen=True)
class Table:
    """`records` has one row for each seed, `rows` one for each shape and way of measuring."""

    records: tuple[dict[str, Any], ...]
    rows: tuple[dict[str, Any], ...]
    value: str
    """The column that `low` and `high` belong to."""

    def select(self, where: Iterable[str]) -> list[dict[str, Any]]:
        """Rows that meet conditions such as "d_model=10"."""
        return select(self.rows, where)

    def seeds(self, where: Iterable[str]) -> list[dict[str, Any]]:
        """The same of single seeds; published points count as one each, where they are asked for by name."""
        asked = list(where)
        held = self.rows if "source=published" in asked else self.records
        return select(held, asked) if held else []


def make_table(entry: Entry, cells: Sequence[Work], journal_rows: Iterable[Mapping[str, Any]]) -> Table:
    """The rows of an entry's cells that are done, and the published ones."""
    wanted = {cell.hash: cell for cell in cells}
    records: list[dict[str, Any]] = []
    keys_by_record: list[list[str]] = []
    for row in journal_rows:
        cell = wanted.get(str(row["hash"]))
        if cell is None or row["status"] != "done":
            continue
        record, keys = _record(cell, row)
        records.append(record)
        keys_by_record.append(keys)
    for spec in entry.tables("derive"):
        derive(records, keys_by_record, spec)
    grouped: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    keys_of: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record, keys in zip(records, keys_by_record, strict=True):
        group = {name: record.get(name) for name in keys}
        mark = tuple(sorted((name, repr(value)) for name, value in group.items()))
        grouped.setdefault(mark, []).append(record)
        keys_of[mark] = group
    value = str(entry.record.get("value") or _main(records))
    rows = [_row(keys_of[mark], members, value) for mark, members in grouped.items()]
    printed: list[dict[str, Any]] = []
    for table in entry.tables("published"):
        printed += beside(published_rows(entry.folder, table), rows, table, value)
    return Table(tuple(records), (*rows, *printed), value)


def _main(records: Sequence[Mapping[str, Any]]) -> str:
    return "capacity" if any("capacity" in record for record in records) else "published_metric"


def _record(cell: Work, row: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A flat record in the table's names, and the columns that say what was measured, not what came out."""
    plain = {name: value for name, value in row.items() if name not in _BOOKS}
    if isinstance(cell, StudyCell):
        study = get_study(cell.kind)
        plain.pop("study", None)
        plain.setdefault("source", cell.source)
        texts = [name for name, value in plain.items() if isinstance(value, (str, bool, list))]
        keys = dict.fromkeys((*study.params, *study.keys, *texts))
        return plain, [name for name in keys if name != "seed"]
    assert isinstance(cell, Cell)
    plain = {_NAMES.get(name, name): value for name, value in plain.items()}
    plain["d_head"] = cell.arch.d_head
    plain["source"] = f"train:{cell.recipe}" if cell.by == "train" else f"build:{cell.by}"
    plain["family"] = cell.spec.family
    plain.setdefault("params", cell.spec.params)
    held = plain.get("capacity", plain.get("held"))
    if held is not None and not cell.regression:
        plain["bits_per_param"] = held * cell.bits_per_fact / plain["params"]
    if cell.regression and plain.get("loss") is not None:
        # Targets are uniform on [0, 1], so their variance is 1/12.
        plain["explained"] = 1 - 12 * plain["loss"]
    if "share_of_facts" in plain and not cell.regression and not cell.vectors:
        # What guessing would bring is taken off, so that the rest is what is remembered.
        plain["memorised"] = max(0.0, (plain["share_of_facts"] - 1 / cell.vocab) / (1 - 1 / cell.vocab))
    return plain, [*_CELL_KEYS, "n_facts", "source", "family", "params"]


def _row(keys: Mapping[str, Any], members: Sequence[Mapping[str, Any]], value: str) -> dict[str, Any]:
    row: dict[str, Any] = {**keys, "seeds": len({member.get("seed", 0) for member in members})}
    names = dict.fromkeys(name for member in members for name in member)
    for name in names:
        if name in keys or name == "seed":
            continue
        held = [member[name] for member in members if is_number(member.get(name))]
        if not held:
            continue
        row[name] = sum(held) / len(held)
        if name in ("duration", "steps"):
            continue
        span = student_interval([float(one) for one in held])
        if span is not None:
            row[f"{name}_low"], row[f"{name}_high"] = span
    if value in row:
        row["low"], row["high"] = row.get(f"{value}_low"), row.get(f"{value}_high")
    return row


def spots(table: Table, x: str, y: str, where: Iterable[str] = (), *, saturation: float | None = 0.95) -> list[Spot]:
    """Seeds by x for a law; shares of `saturation` or more are marked, since no law holds at the ceiling."""
    groups: dict[float, list[float]] = {}
    for record in table.seeds(where):
        if is_number(record.get(x)) and is_number(record.get(y)):
            groups.setdefault(float(record[x]), []).append(float(record[y]))
    places = []
    for place, values in sorted(groups.items()):
        full = saturation is not None and y in _SHARES and sum(values) / len(values) >= saturation
        places.append(Spot(place, tuple(values), full))
    return places


def write_csv(path: Path, table: Table) -> None:
    """The rows with the common columns first, and every other column that holds something."""
    others = dict.fromkeys(name for row in table.rows for name in row if name not in COLUMNS)
    used = [name for name in others if any(row.get(name) is not None for row in table.rows)]
    if not table.rows:
        raise UsageError("there are no rows to write: no cell is done.")
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*COLUMNS, *used])
        for row in table.rows:
            writer.writerow([_cell(row.get(name)) for name in (*COLUMNS, *used)])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.8g}"
    return " ".join(str(one) for one in value) if isinstance(value, list) else str(value)
