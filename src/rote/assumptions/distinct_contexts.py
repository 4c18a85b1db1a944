"""Distinct contexts (Dana, Pydi, Chevaleyre 2025, Assumption 1: each context has one next token)."""

from __future__ import annotations

import numpy as np

from rote.assumptions._common import Data, distinctness, every_row
from rote.assumptions._finding import Finding

__all__ = ["CHECKS", "NAME", "THEOREMS", "check"]

NAME = "distinct contexts"
THEOREMS = ("dana2025_cor1", "dana2025_cor2", "dana2025_thm1", "dana_rank_limit")


def check(data: Data, d_model: int | None, *, rng: np.random.Generator) -> list[Finding]:
    """Contexts that equal an earlier one. Vectors are told apart by their queries too; no theorem then rests on it."""
    theorems = () if data.words is None else THEOREMS
    said, pair = "{} of {} contexts are distinct", "have the same one"
    return distinctness(NAME, every_row(data), theorems, said=said, pair=pair)


CHECKS = {"facts": check, "vectors": check}
