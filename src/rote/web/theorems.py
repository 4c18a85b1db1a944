"""The theorems page: the registry, entry by entry."""

from __future__ import annotations

import inspect
import sys
from functools import cache
from typing import Any

from rote import constructions
from rote.config import Architecture
from rote.theorems import Setting, Theorem, registry

__all__ = ["theorem_record", "theorems_answer"]

_SHOWN = Setting(Architecture(n_heads=8, d_model=64, d_head=64, context=32, vocab=1000))


def theorem_record(item: Theorem) -> dict[str, Any]:
    """One theorem, in full."""
    example = item.bound(_SHOWN)
    cite = item.citation
    return {
        "theorem": item.key,
        "title": item.title,
        "kind": item.kind,
        "statement": item.statement,
        "promises": item.promises,
        "constructive": item.key in constructions.registry(),
        "takes": "vectors" if item.takes_vectors else "tokens",
        "source": str(cite),
        "paper": cite.title,
        "arxiv": cite.arxiv,
        "text": inspect.getdoc(sys.modules[type(item).__module__]) or item.statement,
        "conditions": [condition.to_dict() for condition in example.conditions],
        "formula": example.formula,
        "facts": example.facts,
        "command": f"rote theorems {item.key}",
    }


@cache
def theorems_answer() -> dict[str, Any]:
    """All of them; conditions and numbers are those of a shape that is named beside them."""
    return {
        "theorems": [theorem_record(item) for item in registry().values()],
        "shown_at": "8 heads of width 64, d_model 64, context 32, vocabulary 1,000",
        "command": "rote theorems",
    }
