"""Results of single cells in a text file: one line each, so that a run goes on from a repository on any machine.

Columns: the seed, what was asked (`setting`, JSON, without what is left at its default), what came out (`result`,
JSON), status and reason, seconds, the version of rote, when it was finished. The hash of a line is computed again from
its setting, so that a line can only stand for the cell that it names.
"""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from rote.data._atomic import write_atomically
from rote.data.records import json_value
from rote.errors import DataError, RoteError
from rote.lab.studies import StudyCell, get_study
from rote.measurement import Cell, Journal
from rote.measurement.sweeps import Work

__all__ = ["NAMES", "adopt", "find_cells", "read_cells", "write_cells"]

NAMES = ("cells.csv", "cells.csv.gz")
_LARGEST = 300_000
"""Bytes from which on the file is compressed."""
_COLUMNS = ("seed", "setting", "result", "status", "reason", "seconds", "version", "finished")
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Cell)}


def _setting(config: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked, without the seed and without defaults."""
    if "study" in config:
        defaults = {name: default for name, (_, default) in get_study(str(config["study"])).params.items()}
    else:
        defaults = dict(_DEFAULTS)
    kept = {name: value for name, value in config.items() if name != "seed"}
    return {name: value for name, value in kept.items() if name not in defaults or value != defaults[name]}


def _work(setting: Mapping[str, Any], seed: int) -> Work:
    """The inverse of `_setting`."""
    if "study" in setting:
        return StudyCell.of(str(setting["study"]), {k: v for k, v in setting.items() if k != "study"}, seed)
    return Cell.from_dict({**setting, "seed": seed})


def _compact(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def write_cells(folder: Path, journal: Journal, wanted: Collection[str]) -> Path | None:
    """The wanted cells that a journal has, in one file; None if it has none of them."""
    lines = [line for line in journal.lines() if line["hash"] in wanted]
    if not lines:
        return None
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for line in lines:
        told = {"setting": _compact(_setting(line["config"])), "result": _compact(line["result"])}
        told["seconds"] = repr(line["duration"])
        writer.writerow([told.get(name, line.get(name)) for name in _COLUMNS])
    plain = text.getvalue().encode()
    name, other = NAMES if len(plain) <= _LARGEST else NAMES[::-1]
    # No time stamp in the compressed file: the same cells give the same bytes.
    data = plain if name == NAMES[0] else gzip.compress(plain, mtime=0)
    write_atomically(folder / name, lambda part: part.write_bytes(data))
    (folder / other).unlink(missing_ok=True)
    return folder / name


def find_cells(folder: Path) -> Path | None:
    """The file of single cells in an entry's folder, if there is one."""
    return next((folder / name for name in NAMES if (folder / name).is_file()), None)


def read_cells(path: Path) -> Iterator[tuple[Work, dict[str, Any]]]:
    """Cells and their results as a journal takes them; a line that is not what it says is refused by its number."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}; restore it, or run the cells again.") from error
    rows = csv.DictReader(io.StringIO(text, newline=""))
    if rows.fieldnames is None or set(rows.fieldnames) != set(_COLUMNS):
        raise DataError(f"{path} is no file of cells: it must have the columns {', '.join(_COLUMNS)}.")
    for row in rows:
        try:
            setting, result = json_value(row["setting"]), json_value(row["result"])
            if not isinstance(setting, dict) or not isinstance(result, dict):
                raise ValueError("setting and result must be JSON objects")
            cell = _work(setting, int(row["seed"]))
            told = {name: row[name] for name in ("status", "reason", "version", "finished")}
            yield cell, {**result, **told, "duration": float(row["seconds"])}
        except (ValueError, TypeError, RoteError) as error:
            raise DataError(
                f"{path}, line {rows.line_num}: {error}; restore the file, or take the line out."
            ) from error


def adopt(path: Path, journal: Journal, wanted: Collection[str], sweep: str) -> int:
    """Put the wanted cells of a file that a journal lacks into it; how many there were."""
    known = journal.statuses()
    cells: list[Work] = []
    results: list[Mapping[str, Any]] = []
    for cell, result in read_cells(path):
        if cell.hash in wanted and cell.hash not in known:
            cells.append(cell)
            results.append(result)
    if cells:
        journal.put(sweep, cells, results)
    return len(cells)
