"""Entries: one TOML file each, no code.

title, source, question, claim, paper    texts; deviations is a list of texts
[[sweep]]      base, grid, quick, seeds as `rote sweep` reads them; only = "full" or "quick" if it is for one of them
[[study]]      the same with kind = the name of a study
[[derive]]     columns and rows that follow from measured ones, see `rote.lab.entries.derive`
[[published]]  points of a paper, see `rote.lab.entries.published`
[[figure]]     name, title, caption, and [[figure.panel]] tables, see `rote.lab.entries.figure`
[[test]]       kind and its parameters, see `rote.lab.entries.claims`; name puts a prefix before its numbers
[words]        holds, fails, undecided, answer: templates that are filled with the numbers of the tests
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote.data.records import read_toml
from rote.errors import DataError, RoteError, UnknownName, UsageError, check_names
from rote.lab.entries import published
from rote.lab.studies import StudyCell, get_study
from rote.measurement.sweeps import Work, cells_of, records_of
from rote.measurement.where import select

__all__ = ["Entry", "entries", "experiments", "find_entries", "read_entry"]

_TEXTS = ("title", "source", "question", "claim", "paper")
_TOP = (*_TEXTS, "deviations", "value", "sweep", "study", "derive", "published", "figure", "test", "words", "judged")
_SWEEP = ("base", "grid", "quick", "seeds", "only")
_STUDY = (*_SWEEP, "kind")
_WORDS = ("holds", "fails", "undecided", "not_judged", "answer")


def experiments() -> Path:
    """Where the entries are: inside an installed package, or beside the sources."""
    inside = Path(__file__).resolve().parents[2] / "experiments"
    beside = Path(__file__).resolve().parents[4] / "experiments"
    for place in (inside, beside):
        if place.is_dir():
            return place
    raise DataError("the folder experiments/ is missing; install rote again, or give the path of a TOML file.")


@dataclass(frozen=True)
class Entry:
    """One figure and one claim."""

    key: str
    record: Mapping[str, Any]
    folder: Path
    called: str = ""
    """What the command line calls it, where that is not its key: a path."""

    def text(self, name: str) -> str:
        return str(self.record.get(name, ""))

    @property
    def title(self) -> str:
        return self.text("title")

    def tables(self, name: str) -> list[dict[str, Any]]:
        """A table or a list of tables, as a list."""
        held = self.record.get(name, [])
        return [held] if isinstance(held, dict) else list(held)

    def cells(self, *, quick: bool) -> list[Work]:
        """Everything that is measured, each cell once."""
        distinct: dict[str, Work] = {}
        for cell in (*self._swept(quick), *self._studied(quick)):
            distinct.setdefault(cell.hash, cell)
        return list(distinct.values())

    def _swept(self, quick: bool) -> Iterator[Work]:
        for table in self.tables("sweep"):
            if _wanted(table, quick):
                yield from cells_of(table, quick=quick and "quick" in table)

    def _studied(self, quick: bool) -> Iterator[Work]:
        for table in self.tables("study"):
            if not _wanted(table, quick):
                continue
            kind = str(table.get("kind", ""))
            keys = (*get_study(kind).params, "seed")
            for one in records_of(table, keys, quick=quick and "quick" in table):
                seed = one.pop("seed", 0)
                yield StudyCell.of(kind, one, seed)


def _wanted(table: Mapping[str, Any], quick: bool) -> bool:
    mode = "quick" if quick else "full"
    return bool(table.get("only", mode) == mode)


def read_entry(path: Path, key: str | None = None, *, folder: Path | None = None) -> Entry:
    """An entry from its file; every mistake in it is refused by name. `folder` is where published files are."""
    record = read_toml(path)
    try:
        entry = Entry(key or path.stem, record, folder or path.parent)
        _check(entry)
    except RoteError as error:
        error.args = (f"{path.name if key is None else key}: {error}",)
        raise
    return entry


def _check(entry: Entry) -> None:
    from rote.lab.entries.claims import get_claim
    from rote.lab.entries.derive import check_derive
    from rote.lab.entries.figure import check_figure

    record = entry.record
    check_names("top-level key of an entry", record, _TOP)
    for name in ("title", "question", "claim"):
        if not isinstance(record.get(name), str) or not record[name]:
            raise UsageError(f"an entry needs {name}, a text.")
    if not isinstance(record.get("judged", True), bool):
        raise UsageError(f"judged must be true or false, got {record['judged']!r}.")
    if not entry.tables("sweep") and not entry.tables("study"):
        raise UsageError("an entry needs [[sweep]] or [[study]] tables: something must be measured.")
    for name, known in (("sweep", _SWEEP), ("study", _STUDY), ("published", published.KEYS)):
        for table in entry.tables(name):
            check_names(f"key in [[{name}]]", table, known)
            if table.get("only", "full") not in ("full", "quick"):
                raise UsageError(f'only must be "full" or "quick", got {table["only"]!r}.')
    for table in entry.tables("published"):
        published.check_published(entry.folder, table)
    for table in entry.tables("derive"):
        check_derive(table)
    for table in entry.tables("figure"):
        check_figure(table)
    for table in entry.tables("test"):
        get_claim(str(table.get("kind", ""))).check(table)
    check_names("key in [words]", record.get("words", {}), _WORDS)
    for name in ("derive", "figure", "test"):
        for table in entry.tables(name):
            _check_conditions(table)
    for quick in (True, False):
        entry.cells(quick=quick)


def _check_conditions(table: Mapping[str, Any]) -> None:
    """Conditions are parsed before the first cell runs, wherever they stand."""
    for key, value in table.items():
        if key in ("where", "ours", "theirs"):
            select([], [value] if isinstance(value, str) else value)
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, dict):
                    _check_conditions(one)


def entries() -> dict[str, Path]:
    """All entries that ship with rote, by key, such as dana2025/exp1."""
    home = experiments()
    return {
        path.relative_to(home).with_suffix("").as_posix(): path
        for path in sorted(home.glob("*/*.toml"), key=lambda path: path.as_posix())
    }


def find_entries(names: list[str]) -> list[Entry]:
    """Entries by key; "all", a whole paper ("dana2025"), or a path that ends in .toml."""
    known = entries()
    home = experiments()
    chosen_entries: dict[str, Entry] = {}
    for name in names:
        if name.endswith(".toml"):
            path = Path(name)
            chosen_entries.setdefault(path.stem, dataclasses.replace(read_entry(path), called=name))
            continue
        chosen = [key for key in known if name in ("all", key) or key.startswith(f"{name}/")]
        if not chosen:
            raise UnknownName("entry", name, [*known, *{key.split("/")[0] for key in known}, "all"])
        for key in chosen:
            chosen_entries.setdefault(key, read_entry(known[key], key, folder=home))
    return list(chosen_entries.values())
