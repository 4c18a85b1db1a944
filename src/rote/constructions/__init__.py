"""Constructions: what hands over weights. One file each, found by its name.

Every sibling module without a leading underscore must define `construction`, an instance of `Construction`; its key is
the file's name. Lists, plans, the command line, the explorer, the docs and the contract tests read this registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rote.config import Dtype
from rote.constructions._base import (
    CHECKED,
    AnyConstruction,
    Construction,
    Job,
    NoPlan,
    Options,
    Plan,
    option,
    stored_bytes,
    words,
)
from rote.registry import Registry
from rote.solvers.record import Progress, quiet

__all__ = [
    "CHECKED",
    "AnyConstruction",
    "Construction",
    "Job",
    "NoPlan",
    "Options",
    "Plan",
    "Progress",
    "accepting",
    "get",
    "kind_for",
    "measurable",
    "option",
    "quiet",
    "register",
    "registry",
    "stored_bytes",
    "words",
]

_constructions: Registry[AnyConstruction] = Registry("construction", __name__, __path__, Construction)
registry, register, get = _constructions.all, _constructions.register, _constructions.get


def accepting(kind: str, *, native: Dtype | None = None) -> Mapping[str, AnyConstruction]:
    """The constructions that take such tables, by key; only those made for a number format, if it is given."""
    return {key: one for key, one in registry().items() if kind in one.accepts and native in (None, one.native)}


def measurable(kind: str) -> Mapping[str, AnyConstruction]:
    """Those of rote's own architecture that `auto` tries, that work in floats and in a given shape: they stand beside
    training."""
    able = accepting(kind, native="float32").items()
    return {key: one for key, one in able if one.arch == "rote" and one.automatic and one.shaped_by}


def kind_for(with_: str, options: Mapping[str, Any]) -> str | None:
    """The kind of table that what was asked for takes, where it takes only one and a file could hold several."""
    known = registry()
    able = [known[with_]] if with_ in known else [one for one in known.values() if with_ == "auto" and options]
    kinds = {kind for one in able if all(name in one.told for name in options) for kind in one.accepts}
    return kinds.pop() if len(kinds) == 1 and "facts" not in kinds else None
