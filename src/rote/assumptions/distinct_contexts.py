"""Distinct contexts (Dana, Pydi, Chevaleyre 2025, Assumption 1: each context has one next token)."""

from __future__ import annotations

import numpy as np

from rote.assumptions._common import SHOWN, Data, first_equal, row_ids, words
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
    count = len(keys)
    later, twin = first_equal(keys)
    distinct = count - len(later)
    said = f"{distinct:,} of {count:,} contexts are distinct"
    if later.size:
        said += f"; examples {words([int(twin[0]), int(later[0])])} have the same one"
        said += f", {later.size:,} repeat an earlier one" if later.size > 1 else ""
    return [
        Finding(
            assumption=NAME,
            holds=not later.size,
            explanation=said + ".",
            lower=distinct,
            upper=distinct,
            witness=[int(twin[0]), int(later[0])] if later.size else None,
            offenders=later[:SHOWN].tolist(),
            n_offenders=int(later.size),
            theorems=theorems,
        )
    ]
