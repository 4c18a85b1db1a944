"""rote: how much a transformer can memorise, and the weights that do it.

The public names load on first use, so that `import rote` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rote._version import __version__

if TYPE_CHECKING:
    from rote.building import build as build
    from rote.capacity import PlanList as PlanList
    from rote.capacity import bounds as bounds
    from rote.capacity import plan as plan
    from rote.config import Architecture as Architecture
    from rote.data import FactTable as FactTable
    from rote.data import SequenceTable as SequenceTable
    from rote.data import VectorTable as VectorTable
    from rote.data import load_facts as load_facts
    from rote.data import read_facts as read_facts
    from rote.data import read_sequences as read_sequences
    from rote.errors import RoteError as RoteError
    from rote.memory import Memory as Memory
    from rote.memory import load as load
    from rote.memory import verify as verify
    from rote.theorems import Bound as Bound
    from rote.theorems import Demand as Demand
    from rote.theorems import Plan as Plan
    from rote.theorems import Setting as Setting
    from rote.theorems import Theorem as Theorem

_HOME = {
    "Architecture": "rote.config",
    "Bound": "rote.theorems",
    "Demand": "rote.theorems",
    "FactTable": "rote.data",
    "Memory": "rote.memory",
    "Plan": "rote.theorems",
    "PlanList": "rote.capacity",
    "RoteError": "rote.errors",
    "SequenceTable": "rote.data",
    "Setting": "rote.theorems",
    "Theorem": "rote.theorems",
    "VectorTable": "rote.data",
    "bounds": "rote.capacity",
    "build": "rote.building",
    "load": "rote.memory",
    "load_facts": "rote.data",
    "plan": "rote.capacity",
    "read_facts": "rote.data",
    "read_sequences": "rote.data",
    "verify": "rote.memory",
}

__all__ = [
    "Architecture",
    "Bound",
    "Demand",
    "FactTable",
    "Memory",
    "Plan",
    "PlanList",
    "RoteError",
    "SequenceTable",
    "Setting",
    "Theorem",
    "VectorTable",
    "__version__",
    "bounds",
    "build",
    "load",
    "load_facts",
    "plan",
    "read_facts",
    "read_sequences",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rote' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
