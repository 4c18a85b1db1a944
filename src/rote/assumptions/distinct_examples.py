"""Distinct examples: no two with the same context and the same query, or they could not have different labels."""

from __future__ import annotations

import numpy as np

from rote.assumptions._common import distinctness, row_ids
from rote.assumptions._finding import Finding
from rote.assumptions._vectors import Vectors
from rote.solvers.rows import distinct_rows

__all__ = ["CHECKS", "NAME", "THEOREMS", "check"]

NAME = "distinct examples"
THEOREMS = ("mahdavi_random_features",)


def check(data: Vectors, d_model: int | None, *, rng: np.random.Generator) -> list[Finding]:
    """Examples that equal an earlier one; the order of the rows of a context does not count."""
    query = distinct_rows(data.queries)[1][:, None]
    bag = np.sort(row_ids(data), axis=1)
    keys = query if data.shared else np.concatenate([bag, query], axis=1)
    said = "{} of {} examples differ in their query or their context"
    return distinctness(NAME, keys, THEOREMS, said=said, pair="are the same")


CHECKS = {"vectors": check}
