"""Reproduced figures: what `rote reproduce` wrote, checked before it is shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rote.errors import DataError

__all__ = ["entry_answer", "entry_line"]

_MOST_BYTES = 5_000_000
_WORDS = ("entry", "title", "source", "question", "claim", "verdict", "sentence", "answer", "mode", "command")


def _read(path: Path) -> dict[str, Any]:
    """A JSON object from a file; numbers that JSON does not know become nothing."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DataError(f"{path.name} is larger than {_MOST_BYTES // 10**6} MB, which no figure is.")
        found = json.loads(path.read_bytes(), parse_constant=lambda name: None)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path.name} cannot be read as JSON ({type(error).__name__}); reproduce it again.") from None
    if not isinstance(found, dict):
        raise DataError(f"{path.name} holds no JSON object; reproduce it again.")
    return found


def entry_line(folder: Path) -> dict[str, Any]:
    """An entry for the list."""
    record = _read(folder / "entry.json")
    return {name: str(record.get(name) or "") for name in ("entry", "title", "verdict", "mode")}


def entry_answer(folder: Path) -> dict[str, Any]:
    """An entry with the data of its figures. Figures are found by listing the folder, never by a name in a file."""
    record = _read(folder / "entry.json")
    lying = {path.stem: path for path in sorted(folder.glob("*.json")) if path.name != "entry.json" and path.is_file()}
    listed = record.get("figures")
    named = [str(one.get("name")) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    figures = [_figure(lying[name]) for name in (named or list(lying)) if name in lying]
    deviations = record.get("deviations")
    return {
        **{name: str(record.get(name) or "") for name in _WORDS},
        "deviations": [str(one) for one in deviations] if isinstance(deviations, list) else [],
        "figures": [figure for figure in figures if figure["panels"]],
    }


def _figure(path: Path) -> dict[str, Any]:
    record = _read(path)
    panels = record.get("panels")
    return {
        "title": str(record.get("title") or path.stem),
        "caption": str(record.get("caption") or ""),
        "alt": str(record.get("alt") or ""),
        "panels": [_panel(one) for one in panels if isinstance(one, dict)] if isinstance(panels, list) else [],
    }


def _panel(record: dict[str, Any]) -> dict[str, Any]:
    def axis(name: str) -> dict[str, str]:
        given = record.get(name)
        held = given if isinstance(given, dict) else {}
        return {"label": str(held.get("label") or name), "scale": "log" if held.get("scale") == "log" else "linear"}

    series = record.get("series")
    return {
        "title": str(record.get("title") or ""),
        "x": axis("x"),
        "y": axis("y"),
        "series": [_series(one) for one in series if isinstance(one, dict)] if isinstance(series, list) else [],
    }


def _series(record: dict[str, Any]) -> dict[str, Any]:
    def numbers(name: str) -> list[Any] | None:
        given = record.get(name)
        if not isinstance(given, list):
            return None
        return [one if isinstance(one, (int, float, str)) else None for one in given[:100_000]]

    kind = str(record.get("kind") or "points")
    return {
        "name": str(record.get("name") or ""),
        "kind": kind if re.fullmatch(r"[a-z_]{1,20}", kind) else "points",
        "x": numbers("x") or [],
        "y": numbers("y") or [],
        "low": numbers("low"),
        "high": numbers("high"),
    }
