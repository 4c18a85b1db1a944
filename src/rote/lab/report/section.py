"""What a page is made of: sections with claims, figures and tables. Readers make them, `page` renders them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rote.lab.entries.claims import VERDICTS
from rote.plot import Figure
from rote.plot.draw import FORMATS, need_matplotlib, picture

__all__ = ["VERDICTS", "Listing", "Picture", "Section", "Table", "anchor", "said"]


@dataclass(frozen=True)
class Picture:
    """A figure as data, and the same figure drawn: file endings (png, svg, pdf) and their bytes."""

    name: str
    figure: Figure
    drawn: Mapping[str, bytes]

    @classmethod
    def of(cls, name: str, figure: Figure, beside: Path | None = None) -> Picture:
        """Files are read where they lie beside the figure's JSON, and drawn where not."""

        def content(kind: str) -> bytes:
            file = beside.with_suffix(f".{kind}") if beside else None
            if file and file.is_file():
                return file.read_bytes()
            need_matplotlib("report", "a report")
            return picture(figure, kind)

        return cls(name, figure, {kind: content(kind) for kind in FORMATS})


@dataclass(frozen=True)
class Table:
    """Columns and rows, as they are shown; `csv` is the whole of it, for a download under `file`."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    is_open: bool = False
    note: str = ""
    csv: str = ""
    file: str = ""


@dataclass(frozen=True)
class Listing:
    """A text that is shown as it stands: a configuration, a command."""

    title: str
    text: str
    file: str = ""


@dataclass(frozen=True)
class Section:
    """One experiment or one sweep."""

    name: str
    title: str
    group: str
    words: tuple[tuple[str, str], ...] = ()
    """Labelled sentences: question, claim, source."""
    verdict: str = ""
    """One of VERDICTS, or empty where nothing was claimed."""
    sentence: str = ""
    answer: str = ""
    deviations: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    listings: tuple[Listing, ...] = ()
    commands: tuple[str, ...] = ()
    """How to run it again."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Versions, times, counts."""

    @property
    def anchor(self) -> str:
        return anchor(self.name)


def anchor(name: str) -> str:
    """A name that can stand in an address and in an attribute; unlike names may collide, and `page` numbers them."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "section"


def said(value: object) -> str:
    """A value as people read it: a dash for nothing, thousands separated, four digits of a fraction."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**12 else f"{value:.3e}"
    if isinstance(value, float):
        if value == int(value) and abs(value) < 10**6:
            return f"{int(value):,}"
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {said(one)}" for name, one in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(said(one) for one in value)
    return str(value)


def text_of(record: Mapping[str, Any], key: str) -> str:
    """A text of a record that may lack it."""
    value = record.get(key)
    return "" if value is None else str(value)
