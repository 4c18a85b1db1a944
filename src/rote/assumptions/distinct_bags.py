"""Distinct contexts up to the order of their tokens (Kajitsuka, Sato 2025)."""

from __future__ import annotations

import numpy as np

from rote.assumptions._common import SHOWN, Data, first_equal, row_ids, words
from rote.assumptions._finding import Finding
from rote.assumptions._vectors import Vectors
from rote.config import Architecture

__all__ = ["NAME", "THEOREMS", "check"]

NAME = "distinct up to order"
THEOREMS = ("kajitsuka2025_next_token", "kajitsuka2025_seq2seq")


def check(data: Data, arch: Architecture | None, *, rng: np.random.Generator) -> list[Finding]:
    """Contexts that are an earlier one in another order, or the same one."""
    keys = np.sort(row_ids(data), axis=1)
    if isinstance(data, Vectors) and data.shared:
        keys = np.repeat(keys, data.n_examples, axis=0)
    later, twin = first_equal(keys)
    distinct = len(keys) - len(later)
    said = f"order aside, {distinct:,} of {len(keys):,} contexts are distinct"
    if later.size:
        said += f"; examples {words([int(twin[0]), int(later[0])])} hold the same tokens"
        said += f", {later.size:,} repeat an earlier bag" if later.size > 1 else ""
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
            theorems=THEOREMS,
        )
    ]
