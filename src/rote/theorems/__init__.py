"""Theorems: statements of how much a shape holds. One file each, found by its name.

Every sibling module without a leading underscore must define `theorem`, an instance of `Theorem`; its key is the file's
name. Lists, tables, the docs and the contract tests read this registry. What carries a proof out and hands over weights
is a construction of the same name, in `rote.constructions`.
"""

from __future__ import annotations

from rote.data.demand import Demand
from rote.registry import Registry
from rote.theorems._base import Bound, Citation, Condition, Kind, Setting, Status, Theorem, condition

__all__ = [
    "Bound",
    "Citation",
    "Condition",
    "Demand",
    "Kind",
    "Setting",
    "Status",
    "Theorem",
    "condition",
    "get",
    "register",
    "registry",
]

_theorems: Registry[Theorem] = Registry("theorem", __name__, __path__, Theorem)
registry, register, get = _theorems.all, _theorems.register, _theorems.get
