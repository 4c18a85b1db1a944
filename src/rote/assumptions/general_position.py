"""General position (Mahdavi, Liao, Thrampoulidis 2024): every d of the queries are independent."""

from __future__ import annotations

import numpy as np

from rote.assumptions._common import query_kruskal
from rote.assumptions._finding import Finding
from rote.assumptions._vectors import Vectors
from rote.assumptions.kruskal_rank import interval_finding

__all__ = ["CHECKS", "NAME", "THEOREMS", "check"]

NAME = "general position of queries"
THEOREMS = ("mahdavi2024_general_position",)


def check(data: Vectors, d_model: int | None, *, rng: np.random.Generator) -> list[Finding]:
    """The interval of the Kruskal rank against d."""
    needed = min(data.d_model, data.n_facts)
    return [interval_finding(NAME, THEOREMS, query_kruskal(data, rng), needed, data, rng)]


CHECKS = {"vectors": check}
