"""Reproduced figures: what `rote reproduce` wrote, checked before it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rote.data.records import read_json
from rote.errors import DataError
from rote.plot import Axis, Figure, Heat, Panel, Series
from rote.plot.interactive import plots

__all__ = ["digits_figure", "entry_answer", "entry_line", "figure_answer", "heads_figure", "read_object"]

_MOST_BYTES = 5_000_000
_WORDS = ("entry", "title", "source", "question", "claim", "verdict", "sentence", "answer", "mode", "command")


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file; a refusal names the file, and not the folder."""
    try:
        return read_json(path, remedy="make it again", most=_MOST_BYTES)
    except DataError as error:
        raise DataError(str(error).replace(str(path), path.name)) from None


def entry_line(folder: Path) -> dict[str, Any]:
    """An entry for the list."""
    record = read_object(folder / "entry.json")
    return {name: str(record.get(name) or "") for name in ("entry", "title", "verdict", "mode")}


def entry_answer(folder: Path) -> dict[str, Any]:
    """An entry with its figures as plots. Figures are found by listing the folder, never by a name in a file."""
    record = read_object(folder / "entry.json")
    lying = {path.stem: path for path in sorted(folder.glob("*.json")) if path.name != "entry.json" and path.is_file()}
    listed = record.get("figures")
    named = [str(one.get("name")) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    deviations = record.get("deviations")
    return {
        **{name: str(record.get(name) or "") for name in _WORDS},
        "deviations": [str(one) for one in deviations] if isinstance(deviations, list) else [],
        "figures": [
            figure_answer(Figure.from_dict(read_object(lying[name])))
            for name in (named or list(lying))
            if name in lying
        ],
    }


def figure_answer(figure: Figure) -> dict[str, Any]:
    """A figure as its words and its plots."""
    panels = [plot.to_dict() for plot in plots(figure)]
    return {"title": figure.title, "caption": figure.caption, "alt": figure.alt, "panels": panels}


def heads_figure(context: list[str], heads: list[dict[str, Any]]) -> Figure:
    """Where the heads look: their weights on the tokens of a context, the first token above."""
    rows = tuple(
        f"{place}. {token if len(token) <= 16 else f'{token[:15]}…'}" for place, token in enumerate(context, 1)
    )
    values = tuple(tuple(head["weights"][place] for head in heads) for place in range(len(context)))
    columns = tuple(str(number) for number in range(1, len(heads) + 1))
    heat = Heat("weight", columns, rows[::-1], values[::-1])
    return Figure("Heads", (Panel("", Axis("head"), Axis(""), heat=heat),))


def digits_figure(lengths: list[int]) -> Figure:
    """Bits of the longest fraction, layer by layer."""
    series = Series("bits", "line", tuple(range(1, len(lengths) + 1)), tuple(lengths))
    return Figure("Bits behind the point", (Panel("", Axis("layer"), Axis("bits"), (series,)),))
