"""What a figure shows, without ink: frozen records that go to JSON and come back the same.

points      measured values, with intervals where there are several seeds
line        a curve that is no measurement and no bound
published   values that the paper printed
fit         a fitted law
bound_lower, bound_upper    what a theorem promises or forbids
reference   a line to compare with, such as 2 bits a parameter
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote.data._atomic import write_atomically
from rote.errors import DataError, UnknownName, UsageError

__all__ = ["SERIES_KINDS", "Axis", "Figure", "Panel", "Series", "describe", "read_figure"]

SERIES_KINDS = ("points", "line", "bound_lower", "bound_upper", "published", "fit", "reference")
SCALES = ("linear", "log")


@dataclass(frozen=True)
class Axis:
    """A label and a scale."""

    label: str
    scale: str = "linear"

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise UnknownName("scale of an axis", self.scale, SCALES)


@dataclass(frozen=True)
class Series:
    """Points in order; `low` and `high` are ends of intervals, or None."""

    name: str
    kind: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.kind not in SERIES_KINDS:
            raise UnknownName("kind of series", self.kind, SERIES_KINDS)
        if (self.low is None) != (self.high is None):
            raise UsageError(f"series {self.name!r}: give both ends of its intervals, or neither.")
        for part in (self.y, self.low, self.high):
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
        }


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "x": {"label": self.x.label, "scale": self.x.scale},
            "y": {"label": self.y.label, "scale": self.y.scale},
            "series": [item.to_dict() for item in self.series],
        }


@dataclass(frozen=True)
class Figure:
    """Panels side by side, a caption, and `alt`: words that say what one sees."""

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
        write_atomically(path, lambda part: _text(part, text))


def _text(part: Path, text: str) -> None:
    part.write_text(text, encoding="utf-8")


def _panel(record: Mapping[str, Any]) -> Panel:
    return Panel(
        str(record["title"]),
        Axis(str(record["x"]["label"]), str(record["x"]["scale"])),
        Axis(str(record["y"]["label"]), str(record["y"]["scale"])),
        tuple(_series(item) for item in record["series"]),
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
    )


def read_figure(path: Path) -> Figure:
    """A figure from the JSON that `Figure.write` wrote."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"there is no file {path}; check the path.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path} is no valid JSON ({error}).") from None
    if not isinstance(record, dict):
        raise DataError(f"{path} must hold a JSON object, got a {type(record).__name__}.")
    return Figure.from_dict(record)


def describe(panels: Sequence[Panel]) -> str:
    """A text alternative: every panel, what is on its axes, and from where to where each series runs."""
    said = []
    for panel in panels:
        parts = [_ran(item) for item in panel.series if item.x]
        if not parts:
            continue
        name = f"{panel.title}: " if panel.title else ""
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
