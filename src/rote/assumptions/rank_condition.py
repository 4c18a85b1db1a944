"""The rank condition of Dana, Pydi, Chevaleyre 2025, Corollary 1 (left out by the paper): d <= N + S - 2, and S >= 2.

A head averages token and position vectors, which vary in N + S - 2 directions; with one token it repeats the skip.
"""

from __future__ import annotations

import numpy as np

from rote.assumptions._finding import Finding
from rote.data import FactTable

__all__ = ["CHECKS", "NAME", "THEOREMS", "check"]

NAME = "rank condition"
THEOREMS = ("dana2025_cor1", "dana2025_cor2", "dana2025_thm1")


def check(data: FactTable, d_model: int | None, *, rng: np.random.Generator) -> list[Finding]:
    """N + S - 2 against d_model; without a shape, against 2."""
    most = data.vocab + data.context - 2
    width = 2 if d_model is None else d_model
    holds = width <= most and data.context >= 2
    said = f"d <= N + S - 2 allows d_model up to {data.vocab:,} + {data.context} - 2 = {most:,}, {width:,} is asked for"
    if data.context < 2:
        said += "; contexts have one token, and a head on one token repeats the skip connection"
    return [
        Finding(NAME, holds, said + ".", most, most, theorems=THEOREMS, detail={"needed": width}),
    ]


CHECKS = {"facts": check}
