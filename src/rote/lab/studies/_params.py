"""Parameters of a study: names, types and defaults; anything else is refused in one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rote.errors import UnknownName, UsageError

__all__ = ["Params", "chosen", "filled"]

Params = Mapping[str, tuple[type, Any]]
"""Name -> (type, default)."""

_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def filled(known: Params, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with defaults for what is left out; unknown names and wrong types are refused."""
    for name in given:
        if name not in known:
            raise UnknownName("parameter of the study", str(name), known)
    params: dict[str, Any] = {}
    for name, (kind, default) in known.items():
        value = given.get(name, default)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise UsageError(f"{name} must be {_WORDS[kind]}, got {value!r}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{name} must be a finite number, got {value!r}.")
        if isinstance(value, int) and not isinstance(value, bool) and value < 0:
            raise UsageError(f"{name} must be at least 0, got {value}.")
        params[name] = value
    return params


def chosen(what: str, name: str, known: tuple[str, ...]) -> str:
    """`name` if it is one of the known ones."""
    if name not in known:
        raise UnknownName(what, name, known)
    return name
