"""What `rote reproduce` left in a folder, as sections: one for each entry.json in it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rote import theorems
from rote.data.records import read_json
from rote.errors import DataError, UnknownName
from rote.lab.report.section import VERDICTS, Listing, Picture, Section, Table, said, text_of
from rote.lab.report.to_toml import toml
from rote.measurement.machine import duration
from rote.plot import read_figure

__all__ = ["read_entries"]

_DEPTH = 3


def read_entries(folder: Path) -> list[Section]:
    """The sections of a folder: the folder of one entry, of one paper, or of all."""
    paths = sorted(
        (path for depth in range(_DEPTH) for path in folder.glob("*/" * depth + "entry.json")),
        key=lambda path: path.relative_to(folder).as_posix(),
    )
    if not paths:
        raise DataError(
            f"{folder} holds no entry.json, so it is no folder of results; give what a reproduction wrote, or the "
            "file of a sweep."
        )
    return [_entry(path) for path in paths]


def _entry(path: Path) -> Section:
    record = read_json(path, remedy="run its entry again")
    name = text_of(record, "entry") or path.parent.name
    verdict = text_of(record, "verdict")
    if verdict and verdict not in VERDICTS:
        raise DataError(f"{path}: {UnknownName('verdict', verdict, VERDICTS)}")
    config = _held(record, "config", path)
    labels = (("question", "Question"), ("claim", "Claim"), ("source", "Source"))
    tables = []
    numbers = _held(record, "numbers", path)
    if numbers:
        rows = tuple((key, value) for key, value in numbers.items())
        tables.append(Table("The numbers behind the sentence", ("name", "value"), rows))
    table = _rows(path.parent / "rows.csv", name)
    if table is not None:
        tables.append(table)
    command = text_of(record, "command")
    return Section(
        name=name,
        title=text_of(record, "title") or name,
        group=_group(name.split("/", 1)[0]),
        words=tuple((label, text_of(record, key)) for key, label in labels if text_of(record, key)),
        verdict=verdict,
        sentence=text_of(record, "sentence"),
        answer=text_of(record, "answer"),
        deviations=tuple(str(one) for one in _held(record, "deviations", path, list)),
        pictures=tuple(_picture(one, path) for one in _held(record, "figures", path, list)),
        tables=tuple(tables),
        listings=(Listing("Configuration", toml(config), f"{name.split('/')[-1]}.toml"),) if config else (),
        commands=(command,) if command else (),
        facts=_facts(record, path),
    )


def _group(key: str) -> str:
    """A paper by its authors, as the theorems cite it; other groups as they are called."""
    if key == "questions":
        return "Open questions"
    for name, theorem in theorems.registry().items():
        if name == key or name.startswith(f"{key}_"):
            return f"{theorem.citation.authors} {theorem.citation.year}"
    return key


def _held(record: Mapping[str, Any], key: str, path: Path, kind: type = dict) -> Any:
    """An object of a record, or a list, that may be missing."""
    value = record.get(key) or kind()
    if not isinstance(value, kind):
        what = "a list" if kind is list else "an object"
        raise DataError(f"{path}: {key!r} must be {what}, got a {type(value).__name__}; run its entry again.")
    return value


def _picture(record: object, path: Path) -> Picture:
    name = record.get("name") if isinstance(record, dict) else record
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise DataError(f"{path}: a figure is named by a plain file name, got {name!r}; run its entry again.")
    file = path.parent / f"{name}.json"
    return Picture.of(name, read_figure(file), file)


def _rows(path: Path, name: str) -> Table | None:
    """The rows behind the figures; cells that are numbers become numbers, so that they stand in columns."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}.") from None
    lines = list(csv.reader(io.StringIO(text)))
    if len(lines) < 2:
        return None
    columns, body = lines[0], lines[1:]
    for number, line in enumerate(body, 2):
        if len(line) != len(columns):
            raise DataError(
                f"{path}, line {number}: {len(line)} cells under {len(columns)} columns; run its entry again."
            )
    # Columns without a value say nothing.
    kept = [i for i in range(len(columns)) if any(line[i] for line in body)]
    return Table(
        f"Rows ({len(body):,})",
        tuple(columns[i] for i in kept),
        tuple(tuple(_cell(line[i]) for i in kept) for line in body),
        csv=text,
        file=f"{name.replace('/', '-')}.csv",
    )


def _cell(text: str) -> object:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def _facts(record: Mapping[str, Any], path: Path) -> dict[str, str]:
    facts = {key: str(value) for key, value in _held(record, "versions", path).items()}
    cells = _held(record, "cells", path)
    if cells:
        facts["cells"] = f"{said(cells.get('done'))} done, {said(cells.get('failed', 0))} failed"
    if record.get("mode"):
        facts["mode"] = str(record["mode"])
    seconds = record.get("seconds")
    if isinstance(seconds, (int, float)):
        facts["time"] = duration(float(seconds))
    return facts
