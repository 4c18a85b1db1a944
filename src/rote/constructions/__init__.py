"""Constructions: what hands over weights. One file each, found by its name.

Every sibling module without a leading underscore must define `construction`, an instance of `Construction`; its key is
the file's name. Lists, plans, the command line, the explorer, the docs and the contract tests read this registry.
"""

from __future__ import annotations

from collections.abc import Mapping

from rote.config import Dtype
from rote.constructions._base import (
    CHECKED,
    AnyConstruction,
    Construction,
    Job,
    NoPlan,
    Options,
    Plan,
    Progress,
    option,
    quiet,
    stored_bytes,
    words,
)
from rote.registry import Registry

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
