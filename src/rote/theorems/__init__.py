"""The registry: one file per theorem.

Every sibling module without a leading underscore must define `theorem`, an instance of `Theorem`; its key is the file
name. Adding a theorem is adding one file: lists, tables, plans and contract tests all read this registry.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import MappingProxyType

from rote.errors import UnknownName
from rote.theorems._base import (
    Bound,
    Citation,
    Condition,
    Demand,
    NoPlan,
    Plan,
    Setting,
    Theorem,
    condition,
    stored_bytes,
)

__all__ = [
    "Bound",
    "Citation",
    "Condition",
    "Demand",
    "NoPlan",
    "Plan",
    "Setting",
    "Theorem",
    "condition",
    "get",
    "register",
    "registry",
    "stored_bytes",
]

_added: dict[str, Theorem] = {}


@cache
def _discovered() -> dict[str, Theorem]:
    found: dict[str, Theorem] = {}
    for module_info in sorted(pkgutil.iter_modules(__path__), key=lambda item: item.name):
        key = module_info.name
        if key.startswith("_"):
            continue
        module = importlib.import_module(f"{__name__}.{key}")
        found[key] = _checked(key, getattr(module, "theorem", None))
    return found


def _checked(key: str, candidate: object) -> Theorem:
    if not isinstance(candidate, Theorem):
        raise TypeError(f"theorem file {key!r} must define `theorem`, an instance of rote.theorems.Theorem.")
    if candidate.key and candidate.key != key:
        raise ValueError(f"theorem {key!r} is already registered as {candidate.key!r}.")
    candidate.key = key
    return candidate


def registry() -> MappingProxyType[str, Theorem]:
    """All theorems by key, in alphabetical order, those added by `register` last."""
    return MappingProxyType({**_discovered(), **_added})


def register(key: str, theorem: Theorem) -> None:
    """Add a theorem from outside the package, for the life of the process; a duplicate key is refused."""
    if key in registry():
        raise ValueError(f"theorem {key!r} is registered already.")
    _added[key] = _checked(key, theorem)


def get(key: str) -> Theorem:
    """The theorem of that key, or an error that suggests the nearest."""
    known = registry()
    if key not in known:
        raise UnknownName("theorem", key, known)
    return known[key]
