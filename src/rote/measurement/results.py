"""Rows of a journal, to look at and to hand on."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import UnknownName
from rote.measurement.journal import Journal
from rote.measurement.where import select
from rote.plot import Grid, Sheet, Shown

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FORMATS", "Results", "results"]

FORMATS = ("csv", "parquet", "json")
_TEXTS = ("recipe", "by", "status", "reason")
_FIRST = ("n_heads", "d_model", "d_head", "context", "vocab", "n_layers", "d_mlp", "recipe", "by", "n_facts", "seed")
_LAST = ("status", "capacity", "share", "published", "params", "duration", "reason")
_ROWS = 60


@dataclass(frozen=True, repr=False)
class Results(Shown):
    """Flat records: what was asked, what came out, and the status of every cell. A study may have several for one."""

    rows: tuple[dict[str, Any], ...]
    name: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]

    def where(self, *conditions: str) -> Results:
        """The rows that meet every condition, such as "n_heads>=6"."""
        return Results(tuple(select(self.rows, conditions)), self.name)

    def frame(self) -> pl.DataFrame:
        """The rows as a table of polars."""
        import polars as pl

        return pl.DataFrame(list(self.rows), infer_schema_length=None)

    def export(self, kind: str) -> bytes:
        """The content of a csv, parquet or json file."""
        if kind == "json":
            return (json.dumps(list(self.rows), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
        content = io.BytesIO()
        if kind == "csv":
            self.frame().write_csv(content)
        elif kind == "parquet":
            self.frame().write_parquet(content)
        else:
            raise UnknownName("format", kind, FORMATS)
        return content.getvalue()

    def sheet(self) -> Sheet:
        """The first rows as a table; what is the same everywhere is said once."""
        rows = self.rows
        if not rows:
            return Sheet("No rows.")
        columns = [name for name in (*_FIRST, *_LAST) if any(row.get(name) not in (None, "") for row in rows)]
        same = [name for name in columns if len(rows) > 1 and len({str(row.get(name)) for row in rows}) == 1]
        shown = tuple(name for name in columns if name not in same)
        grid = Grid(shown, tuple(tuple(_cell(row.get(name)) for name in shown) for row in rows[:_ROWS]), left=_TEXTS)
        said = ", ".join(f"{name} {_cell(rows[0].get(name))}" for name in same)
        more = [f"and {len(rows) - _ROWS:,} more; an exported file has all."] if len(rows) > _ROWS else []
        note = f"{len(rows):,} rows" + (f"; everywhere: {said}." if said else ".")
        return Sheet(self.name or "Results", grids=(grid,), notes=(*more, note))

    def __repr__(self) -> str:
        done = sum(row.get("status") == "done" for row in self.rows)
        return f"Results({self.name + ': ' if self.name else ''}{len(self.rows):,} rows, {done:,} done)"


def results(db: str | Path, where: Iterable[str] = ()) -> Results:
    """The rows of a sweep's file that meet every condition, as in `results("heads.db", ["n_heads>=6"])`; only read."""
    path = Path(db)
    with Journal(path, write=False) as journal:
        return Results(tuple(select(list(journal.rows()), where)), path.name)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
