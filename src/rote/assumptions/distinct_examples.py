"""Distinct examples: no two with the same context and the same query, or they could not have different labels."""

from __future__ import annotations

import numpy as np

from rote.assumptions._closest import distinct_rows
from rote.assumptions._common import SHOWN, Data, first_equal, row_ids, words
from rote.assumptions._finding import Finding
from rote.assumptions._vectors import Vectors
from rote.config import Architecture

__all__ = ["NAME", "THEOREMS", "check"]

NAME = "distinct examples"
THEOREMS = ("mahdavi_random_features",)


def check(data: Data, arch: Architecture | None, *, rng: np.random.Generator) -> list[Finding]:
    """Examples that equal an earlier one; the order of the rows of a context does not count."""
    if not isinstance(data, Vectors):
        return []
    query = distinct_rows(data.queries)[1][:, None]
    bag = np.sort(row_ids(data), axis=1)
    keys = query if data.shared else np.concatenate([bag, query], axis=1)
    later, twin = first_equal(keys)
    distinct = len(keys) - len(later)
    said = f"{distinct:,} of {len(keys):,} examples differ in their query or their context"
    if later.size:
        said += f"; examples {words([int(twin[0]), int(later[0])])} are the same"
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
            theorems=THEOREMS,
        )
    ]
