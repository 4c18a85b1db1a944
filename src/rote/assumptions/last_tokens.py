"""Distinct last tokens (Dana, Pydi, Chevaleyre 2025, Corollary 1, condition added by rote): L >= d.

The skip connection sees only the last token of a context, so it adds min(d, L) to the rank of the features.
"""

from __future__ import annotations

import numpy as np

from rote.assumptions._finding import Finding
from rote.data import FactTable

__all__ = ["CHECKS", "NAME", "THEOREMS", "check"]

NAME = "distinct last tokens"
THEOREMS = ("dana2025_cor1", "dana2025_cor2", "dana2025_thm1")


def check(data: FactTable, d_model: int | None, *, rng: np.random.Generator) -> list[Finding]:
    """L against d_model; without a shape, against 2, the smallest width that tells targets apart."""
    last, counts = np.unique(data.contexts[:, -1], return_counts=True)
    width = 2 if d_model is None else d_model
    holds = len(last) >= width
    named = f"d_model = {width}" if d_model is not None else "the narrowest model, d_model = 2"
    said = (
        f"contexts end in {len(last):,} different tokens, {width:,} needed for {named}; a model may be up to "
        f"{len(last):,} wide"
    )
    common = int(np.argmax(counts))
    if not holds:
        said += f"; {counts[common]:,} of {data.n_facts:,} end in {data.vocabulary.tokens[last[common]]!r}"
    return [
        Finding(
            assumption=NAME,
            holds=holds,
            explanation=said + ".",
            lower=len(last),
            upper=len(last),
            witness=None if holds else [int(i) for i in np.flatnonzero(data.contexts[:, -1] == last[common])[:2]],
            offenders=[] if holds else [int(i) for i in np.flatnonzero(data.contexts[:, -1] == last[common])[:10]],
            n_offenders=0 if holds else int(counts[common]),
            theorems=THEOREMS,
            detail={"needed": width},
        )
    ]


CHECKS = {"facts": check}
