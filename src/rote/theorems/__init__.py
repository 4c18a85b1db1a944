"""Theorems: statements of how much a shape holds. One file each, found by its name.

Every sibling module without a leading underscore must define `theorem`, an instance of `Theorem`; its key is the file's
name. Files of one's own stand in the folders that ROTE_THEOREMS names, or are named by their path. Lists, tables, the
docs and the contract tests read this registry. What carries a proof out and hands over weights is a construction of the
same name, in `rote.constructions`.
"""

from __future__ import annotations

from collections.abc import Mapping

from rote.data.demand import Demand
from rote.registry import Registry
from rote.theorems._base import Bound, Citation, Condition, Kind, Setting, Status, Theorem, condition
from rote.theorems._own import Fault, OwnTheorems, UnusableTheorem

__all__ = [
    "Bound",
    "Citation",
    "Condition",
    "Demand",
    "Fault",
    "Kind",
    "Setting",
    "Status",
    "Theorem",
    "UnusableTheorem",
    "condition",
    "faults",
    "find",
    "get",
    "register",
    "registry",
]

_theorems: Registry[Theorem] = Registry("theorem", __name__, __path__, Theorem)
_own = OwnTheorems(_theorems)
register = _theorems.register


def registry() -> Mapping[str, Theorem]:
    """All theorems by key, in alphabetical order, those from elsewhere last."""
    _own.load_folders()
    return _theorems.all()


def get(key: str) -> Theorem:
    """The theorem of that key, or of a file, if the key is the path of one."""
    _own.load_folders()
    return _own.load(key) if key.endswith(".py") else _theorems.get(key)


def find(key: str) -> Theorem | None:
    """The theorem of that key, if there is one."""
    _own.load_folders()
    return _theorems.find(key)


def faults() -> tuple[Fault, ...]:
    """Files of one's own folders that could not be loaded, and why."""
    _own.load_folders()
    return _own.faults
