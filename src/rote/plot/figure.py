"""What a figure shows: frozen records that go to JSON and come back the same. `draw` and `interactive` draw them.

points      measured values, with intervals where there are several seeds
excluded    measured values that a law leaves out, such as saturated ones
line        a curve that is no measurement and no bound
published   values that the paper printed
fit         a fitted law
bound_lower, bound_upper    what a theorem promises or forbids
reference   a line to compare with, such as 2 bits a parameter

A series called "NAME: more" belongs to the series NAME, if that is there, and has its colour.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from rote.data._atomic import write_atomically
from rote.data.records import read_json
from rote.errors import DataError, MissingExtra, UnknownName, UsageError
from rote.plot.sheet import Shown, sheet_html

__all__ = ["SERIES_KINDS", "Axis", "Figure", "Heat", "Panel", "Pictured", "Series", "describe", "read_figure"]

SERIES_KINDS = ("points", "excluded", "line", "bound_lower", "bound_upper", "published", "fit", "reference")
SCALES = ("linear", "log", "symlog")
"""`symlog` is logarithmic above 1 and linear from 0 to 1."""
NAMES = ("legend", "ends")


@dataclass(frozen=True)
class Axis:
    """A label and a scale; `names`, if there are any, stand for 0, 1, 2, ... on it."""

    label: str
    scale: str = "linear"
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise UnknownName("scale of an axis", self.scale, SCALES)

    def to_dict(self) -> dict[str, Any]:
        return {"label": self.label, "scale": self.scale, **({"names": list(self.names)} if self.names else {})}


@dataclass(frozen=True)
class Series:
    """Points in order; `low` and `high` are ends of intervals, or None; `texts` are words beside points, or nothing."""

    name: str
    kind: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    texts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in SERIES_KINDS:
            raise UnknownName("kind of series", self.kind, SERIES_KINDS)
        if (self.low is None) != (self.high is None):
            raise UsageError(f"series {self.name!r}: give both ends of its intervals, or neither.")
        for part in (self.y, self.low, self.high, self.texts or None):
            if part is not None and len(part) != len(self.x):
                raise UsageError(f"series {self.name!r} has {len(self.x)} places and {len(part)} values.")
        for part in (self.x, self.y, self.low, self.high):
            if part is not None and not all(math.isfinite(value) for value in part):
                raise UsageError(f"series {self.name!r} holds a value that is not finite; leave such points out.")

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "x": list(self.x),
            "y": list(self.y),
            "low": None if self.low is None else list(self.low),
            "high": None if self.high is None else list(self.high),
            **({"texts": list(self.texts)} if self.texts else {}),
        }


@dataclass(frozen=True)
class Heat:
    """Values as colours from `low` to `high`: a list for every row, the first row below; `label` says what they are."""

    label: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if len(self.values) != len(self.rows) or any(len(row) != len(self.columns) for row in self.values):
            raise UsageError(f"the heat map {self.label!r} needs {len(self.rows)} rows of {len(self.columns)} values.")
        if not all(math.isfinite(value) for row in self.values for value in row):
            raise UsageError(f"the heat map {self.label!r} holds a value that is not finite.")

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Panel:
    """One pair of axes with series, or a heat map. `names` says where series are named: a legend, or their ends."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...] = ()
    heat: Heat | None = None
    names: str = "legend"

    def __post_init__(self) -> None:
        if self.names not in NAMES:
            raise UnknownName("place for names", self.names, NAMES)

    def to_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "x": self.x.to_dict(),
            "y": self.y.to_dict(),
            "series": [item.to_dict() for item in self.series],
            **({} if self.heat is None else {"heat": self.heat.to_dict()}),
            **({} if self.names == "legend" else {"names": self.names}),
        }


@dataclass(frozen=True, repr=False)
class Figure:
    """Panels side by side, a caption, and `alt`: words that say what one sees. Notebooks show the figure itself."""

    title: str
    panels: tuple[Panel, ...]
    caption: str = ""
    alt: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "panels": [panel.to_dict() for panel in self.panels],
            "caption": self.caption,
            "alt": self.alt,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Figure:
        """The inverse of `to_dict`; what is missing or of the wrong kind is refused."""
        try:
            return cls(
                str(record["title"]),
                tuple(_panel(item) for item in record["panels"]),
                str(record.get("caption", "")),
                str(record.get("alt", "")),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"this is no figure of rote: {type(error).__name__} {error}.") from None

    def write(self, path: Path) -> None:
        """As JSON, whole or not at all."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        write_bytes(path, text.encode())

    def draw(self, path: str | Path) -> None:
        """Write the figure as .png, .svg or .pdf, by the file's ending; needs matplotlib."""
        from rote.plot.draw import draw

        draw(self, Path(path))

    def __repr__(self) -> str:
        return f"Figure({self.title!r}, {len(self.panels)} {'panel' if len(self.panels) == 1 else 'panels'})"

    def _repr_html_(self) -> str:
        from rote.plot.draw import picture

        try:
            content = base64.b64encode(picture(self, "svg")).decode("ascii")
        except MissingExtra as error:
            return f"<p>{escape(str(error))}</p><p>{escape(self.alt)}</p>"
        return f'<img alt="{escape(self.alt)}" style="max-width: 100%" src="data:image/svg+xml;base64,{content}">'


class Pictured(Shown):
    """A record that has a `figure` and a `sheet`: a notebook shows both, and the sheet alone without matplotlib."""

    def figure(self) -> Figure:
        raise TypeError(f"{type(self).__name__} has no figure to show.")

    def _repr_html_(self) -> str:
        from rote.plot.draw import need_matplotlib

        try:
            need_matplotlib()
        except MissingExtra:
            return sheet_html(self.sheet())
        return self.figure()._repr_html_() + sheet_html(self.sheet())


def write_bytes(path: Path, content: bytes) -> None:
    """A file, whole or not at all."""

    def fill(part: Path) -> None:
        part.write_bytes(content)

    write_atomically(path, fill)


def _panel(record: Mapping[str, Any]) -> Panel:
    return Panel(
        str(record["title"]),
        _axis(record["x"]),
        _axis(record["y"]),
        tuple(_series(item) for item in record["series"]),
        None if record.get("heat") is None else _heat(record["heat"]),
        str(record.get("names", "legend")),
    )


def _axis(record: Mapping[str, Any]) -> Axis:
    return Axis(str(record["label"]), str(record["scale"]), tuple(map(str, record.get("names", ()))))


def _heat(record: Mapping[str, Any]) -> Heat:
    return Heat(
        str(record["label"]),
        tuple(map(str, record["columns"])),
        tuple(map(str, record["rows"])),
        tuple(tuple(map(float, row)) for row in record["values"]),
        float(record["low"]),
        float(record["high"]),
    )


def _series(record: Mapping[str, Any]) -> Series:
    def numbers(name: str) -> tuple[float, ...] | None:
        held = record.get(name)
        return None if held is None else tuple(float(value) for value in held)

    return Series(
        str(record["name"]),
        str(record["kind"]),
        numbers("x") or (),
        numbers("y") or (),
        numbers("low"),
        numbers("high"),
        tuple(map(str, record.get("texts", ()))),
    )


def read_figure(path: Path) -> Figure:
    """A figure from the JSON that `Figure.write` wrote."""
    return Figure.from_dict(read_json(path))


def describe(panels: Sequence[Panel]) -> str:
    """A text alternative: every panel, what is on its axes, and from where to where each series runs."""
    said = []
    for panel in panels:
        parts = [_ran(item) for item in panel.series if item.x]
        name = f"{panel.title}: " if panel.title else ""
        if panel.heat is not None:
            values = [value for row in panel.heat.values for value in row]
            if values:
                said.append(f"{name}{panel.heat.label}, from {min(values):.3g} to {max(values):.3g}.")
            continue
        if not parts:
            continue
        said.append(f"{name}{panel.y.label} against {panel.x.label}. {'; '.join(parts)}.")
    return " ".join(said)


def _ran(item: Series) -> str:
    order = sorted(range(len(item.x)), key=lambda i: item.x[i])
    first, last = order[0], order[-1]
    if item.x[first] == item.x[last]:
        return f"{item.name}: {item.y[first]:.3g} at {item.x[first]:.3g}"
    word = "runs level at" if item.y[first] == item.y[last] else "goes from"
    if item.y[first] == item.y[last]:
        return f"{item.name} {word} {item.y[first]:.3g}"
    return f"{item.name} {word} {item.y[first]:.3g} at {item.x[first]:.3g} to {item.y[last]:.3g} at {item.x[last]:.3g}"
