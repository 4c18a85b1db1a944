"""Distinct contexts up to the order of their tokens (Kajitsuka, Sato 2025)."""

from __future__ import annotations

import numpy as np

from rote.assumptions._common import Data, distinctness, row_ids
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
    said = "order aside, {} of {} contexts are distinct"
    return distinctness(NAME, keys, THEOREMS, said=said, pair="hold the same tokens", repeated="bag")
