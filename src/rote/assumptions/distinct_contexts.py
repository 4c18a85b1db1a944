"""Distinct contexts (Dana, Pydi, Chevaleyre 2025, Assumption 1: each context has one next token)."""

from __future__ import annotations

import numpy as np

from rote.assumptions._common import Data, distinctness, row_ids
from rote.assumptions._finding import Finding
from rote.assumptions._vectors import Vectors
from rote.config import Architecture

__all__ = ["NAME", "THEOREMS", "check"]

NAME = "distinct contexts"
THEOREMS = ("dana2025_cor1", "dana2025_cor2", "dana2025_thm1", "dana_rank_limit")


def check(data: Data, arch: Architecture | None, *, rng: np.random.Generator) -> list[Finding]:
    """Contexts that equal an earlier one. Vectors are told apart by their queries too; no theorem then rests on it."""
    keys = row_ids(data)
    theorems: tuple[str, ...] = THEOREMS
    if isinstance(data, Vectors):
        theorems = ()
        if data.shared:
            keys = np.repeat(keys, data.n_examples, axis=0)
    return distinctness(NAME, keys, theorems, said="{} of {} contexts are distinct", pair="have the same one")
