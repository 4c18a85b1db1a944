"""Points that papers published, and ours beside them.

`experiments/published.toml` holds them: a table a paper with its citation, in it a table an experiment with `columns`,
`constants` and `points`. An entry names one, [[published]] table = "dana2025.exp1", or a CSV file of its own with
`file`, `columns` (theirs to ours) and `constants`; `ours` are conditions on the rows that the points are held against.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rote.data.records import read_toml
from rote.errors import DataError, UnknownName, UsageError
from rote.measurement.where import select

__all__ = ["KEYS", "beside", "check_published", "known_tables", "published_rows"]

KEYS = ("table", "file", "columns", "constants", "ours")
FILE = "published.toml"
_COUNTS = ("n_heads", "d_model", "d_head", "d_mlp", "n_layers", "vocab", "context", "n_facts", "layer")


def known_tables(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Every table of the file of published figures, by its key."""
    path = folder / FILE
    if not path.is_file():
        return {}
    papers = read_toml(path)
    return {
        f"{paper}.{name}": {"citation": held.get("citation", ""), **table}
        for paper, held in papers.items()
        for name, table in held.items()
        if isinstance(table, dict)
    }


def check_published(folder: Path, spec: Mapping[str, Any]) -> None:
    """Refuse what names neither a table that there is nor a file."""
    if ("table" in spec) == ("file" in spec):
        raise UsageError(f'[[published]] needs table = "paper.experiment" of {FILE}, or file, and not both.')
    if "table" in spec and spec["table"] not in known_tables(folder):
        raise UnknownName("table of published figures", str(spec["table"]), known_tables(folder))
    select([], spec.get("ours", []))


def published_rows(folder: Path, spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The points in our columns, each a row whose source is "published"."""
    if "table" in spec:
        table = known_tables(folder)[str(spec["table"])]
        lines: Iterable[Mapping[str, Any]] = (
            dict(zip(table["columns"], point, strict=True)) for point in table["points"]
        )
        constants = {**table.get("constants", {}), **spec.get("constants", {})}
    else:
        lines, constants = _lines(folder / str(spec["file"]), spec.get("columns", {})), spec.get("constants", {})
    return [{"source": "published", "seeds": 0, **constants, **line} for line in lines]


def _lines(path: Path, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """A CSV file in our columns."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            lines = list(csv.DictReader(stream))
    except OSError as error:
        raise DataError(f"cannot read the published points {path.name}: {error.strerror or error}.") from None
    rows = []
    for line in lines:
        row: dict[str, Any] = {}
        for theirs, ours in columns.items():
            if theirs not in line:
                raise DataError(f"{path.name} has no column {theirs!r}; it has {', '.join(line)}.")
            try:
                number = float(line[theirs])
            except ValueError:
                raise DataError(f"{path.name}: {line[theirs]!r} in column {theirs} is no number.") from None
            row[ours] = int(number) if ours in _COUNTS and number.is_integer() else number
        rows.append(row)
    return rows


def beside(
    points: Sequence[dict[str, Any]], rows: Sequence[Mapping[str, Any]], spec: Mapping[str, Any], value: str
) -> list[dict[str, Any]]:
    """Published rows with what was measured at the same place: ours, ours_low, ours_high, ours_seeds, difference.

    Rows that meet the conditions `ours` are compared by every column that the point has, and must be one.
    """
    mine = select(list(rows), spec.get("ours", [])) if rows else []
    found = []
    for point in points:
        place = {name: at for name, at in point.items() if name not in (value, "source", "seeds")}
        near = [row for row in mine if value in row and all(row.get(name, at) == at for name, at in place.items())]
        own: dict[str, Any] = {}
        if len(near) == 1 and value in point:
            own = {
                "ours": near[0][value],
                "ours_low": near[0].get(f"{value}_low"),
                "ours_high": near[0].get(f"{value}_high"),
                "ours_seeds": near[0]["seeds"],
                "difference": near[0][value] - point[value],
            }
        found.append({**point, **own})
    return found
