"""General position (Mahdavi, Liao, Thrampoulidis 2024): every d of the queries are independent."""

from __future__ import annotations

import numpy as np

from rote.assumptions._common import Data, query_kruskal
from rote.assumptions._finding import Finding
from rote.assumptions._vectors import Vectors
from rote.assumptions.kruskal_rank import interval_finding
from rote.config import Architecture

__all__ = ["NAME", "THEOREMS", "check"]

NAME = "general position of queries"
THEOREMS = ("mahdavi2024_general_position",)


def check(data: Data, arch: Architecture | None, *, rng: np.random.Generator) -> list[Finding]:
    """The interval of the Kruskal rank against d."""
    if not isinstance(data, Vectors):
        return []
    needed = min(data.d_model, data.n_examples)
    return [interval_finding(NAME, THEOREMS, query_kruskal(data, rng), needed, data, rng)]
