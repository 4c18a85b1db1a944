"""Theorems at the shape of a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rote import theorems
from rote.config import Architecture
from rote.errors import RoteError
from rote.theorems import Bound, Setting

__all__ = ["bound_at", "bound_value"]

_SHARES = ("published_metric", "share_of_facts")


def bound_at(row: Mapping[str, Any], theorem: str) -> Bound | None:
    """What a theorem says about the row's shape; None where it says nothing."""
    known = theorems.get(theorem)
    try:
        arch = Architecture(
            n_heads=int(row["n_heads"]),
            d_model=int(row["d_model"]),
            d_head=int(row.get("d_head") or row["d_model"]),
            context=int(row["context"]),
            vocab=max(2, int(row["vocab"])),
            n_layers=int(row.get("n_layers") or 1),
            d_mlp=int(row.get("d_mlp") or 0),
        )
        shared = row.get("sharing") == 1 and row.get("family", "layer") == "layer"
        bound = known.bound(Setting(arch, shared_context=shared))
    except (RoteError, KeyError, TypeError):
        return None
    return bound if bound.facts is not None and bound.applies else None


def bound_value(row: Mapping[str, Any], theorem: str, y: str) -> float | None:
    """The bound in units of y. A lower bound on facts is one on accuracy: the rest is guessed (Dana et al., Cor. 2)."""
    bound = bound_at(row, theorem)
    if bound is None or bound.facts is None:
        return None
    if y in _SHARES:
        if not row.get("n_facts"):
            return None
        share = min(1.0, bound.facts / row["n_facts"])
        if bound.kind == "lower":
            return float(share + (1 - share) / row["vocab"]) if row["vocab"] else float(share)
        # More facts than T never fit says nothing about part of them, unless all of them may.
        return 1.0 if share == 1 else None
    if y == "bits_per_param":
        return bound.bits_per_param
    return float(bound.facts)
