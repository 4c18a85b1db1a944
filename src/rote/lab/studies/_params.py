"""Parameters of a study: names, types and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rote.errors import UnknownName

__all__ = ["Params", "chosen"]

Params = Mapping[str, tuple[type, Any]]
"""Name -> (type, default)."""


def chosen(what: str, name: str, known: tuple[str, ...]) -> str:
    """`name` if it is one of the known ones."""
    if name not in known:
        raise UnknownName(what, name, known)
    return name
