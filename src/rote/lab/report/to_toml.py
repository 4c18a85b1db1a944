"""TOML from what was run: the file of a sweep from its cells, and any configuration as it was written."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rote.measurement import Cell

__all__ = ["sweep_toml", "toml"]

_DEFAULTS = {
    field.name: field.default for field in dataclasses.fields(Cell) if field.default is not dataclasses.MISSING
}
_ORDER = [field.name for field in dataclasses.fields(Cell)]
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml(record: Mapping[str, Any]) -> str:
    """A mapping as TOML: its values, then its tables; None is left out, since TOML has no word for it."""
    return "\n".join(_table(record, ())).strip() + "\n"


def _table(record: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    lines: list[str] = []
    later: list[str] = []
    for key, value in record.items():
        place = (*path, _key(str(key)))
        if isinstance(value, Mapping):
            later += ["", f"[{'.'.join(place)}]", *_table(value, place)]
        elif isinstance(value, (list, tuple)) and value and all(isinstance(one, Mapping) for one in value):
            for one in value:
                later += ["", f"[[{'.'.join(place)}]]", *_table(one, place)]
        elif value is not None:
            lines.append(f"{place[-1]} = {_value(value)}")
    return lines + later


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(one) for one in value if one is not None)}]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(str(k))} = {_value(v)}" for k, v in value.items() if v is not None)
        return f"{{{inner}}}"
    return json.dumps(str(value), ensure_ascii=False)


def sweep_toml(name: str, cells: Sequence[Mapping[str, Any]]) -> str:
    """The file that `rote sweep` reads to run exactly these cells."""
    distinct = {key: {json.dumps(cell.get(key)) for cell in cells} for key in _ORDER}
    axes = [key for key in _ORDER if len(distinct[key]) > 1]
    base = {
        key: cells[0].get(key)
        for key in _ORDER
        if key not in axes and (key not in _DEFAULTS or cells[0].get(key) != _DEFAULTS[key])
    }
    grids = _grids([{key: cell.get(key) for key in axes} for cell in cells], axes)
    record: dict[str, Any] = {"name": name}
    seeds = [grid.pop("seed", None) for grid in grids]
    runs = list(range(len(seeds[0]))) if seeds[0] is not None else None
    if runs is not None and all(one == runs for one in seeds):
        record["seeds"] = len(runs)
    else:
        for grid, own in zip(grids, seeds, strict=True):
            if own is not None:
                grid["seed"] = own
    record["base"] = base
    shown = [{key: values for key, values in grid.items() if values != [None]} for grid in grids]
    record["grid"] = shown[0] if len(shown) == 1 else shown
    return toml(record)


def _grids(cells: Sequence[Mapping[str, Any]], axes: Sequence[str]) -> list[dict[str, list[Any]]]:
    """Products of axes that together are the cells: one if they are a full grid, else split along the first axis."""
    values = {key: _distinct([cell[key] for cell in cells]) for key in axes}
    mixed = [key for key in axes if len(values[key]) > 1 and None in values[key]]
    if not mixed and math.prod(len(held) for held in values.values()) == len(cells):
        return [values]
    first = mixed[0] if mixed else next(key for key in axes if len(values[key]) > 1)
    rest = [key for key in axes if key != first]
    parts: list[tuple[list[Any], list[dict[str, list[Any]]]]] = []
    for value in values[first]:
        inner = _grids([cell for cell in cells if cell[first] == value], rest)
        like = next((held for held, other in parts if other == inner and None not in held and value is not None), None)
        if like is None:
            parts.append(([value], inner))
        else:
            like.append(value)
    return [{first: held, **grid} for held, inner in parts for grid in inner]


def _distinct(values: Sequence[Any]) -> list[Any]:
    """In order: numbers by size, others as they come, nothing last."""
    distinct = list(dict.fromkeys(values))
    if all(isinstance(value, (int, float)) for value in distinct):
        return sorted(distinct)
    return [value for value in distinct if value is not None] + ([None] if None in distinct else [])
