"""Distinct contexts up to the order of their tokens (Kajitsuka, Sato 2025)."""

from __future__ import annotations

import numpy as np

from rote.assumptions._common import Data, distinctness, every_row
from rote.assumptions._finding import Finding

__all__ = ["CHECKS", "NAME", "THEOREMS", "check"]

NAME = "distinct up to order"
THEOREMS = ("kajitsuka2025_next_token", "kajitsuka2025_seq2seq")


def check(data: Data, d_model: int | None, *, rng: np.random.Generator) -> list[Finding]:
    """Contexts that are an earlier one in another order, or the same one."""
    keys = np.sort(every_row(data), axis=1)
    said = "order aside, {} of {} contexts are distinct"
    return distinctness(NAME, keys, THEOREMS, said=said, pair="hold the same tokens", repeated="bag")


CHECKS = {"facts": check, "sequences": check, "vectors": check}
