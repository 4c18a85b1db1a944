"""(r, delta)-separated tokens (Kajitsuka, Sato 2025): norms of at most r, and any two tokens equal or delta apart.

Every finite set of tokens is separated for some r and delta; what counts is how large r and how small delta is. The
size of the networks grows with log(r / delta). Tokens given by their ids are numbers 0, 1, 2, ..., so delta is 1.
"""

from __future__ import annotations

import numpy as np

from rote.assumptions._finding import Finding
from rote.assumptions._vectors import Vectors
from rote.data.table import Table
from rote.solvers.rows import closest_pair, distinct_rows

__all__ = ["CHECKS", "NAME", "THEOREMS", "check"]

NAME = "separated tokens"
THEOREMS = ("kajitsuka2025_next_token", "kajitsuka2025_seq2seq")


def check_tokens(data: Table, d_model: int | None, *, rng: np.random.Generator) -> list[Finding]:
    """Whole numbers, 1 apart."""
    assert data.words is not None, "these are tokens"
    last = len(data.words) - 1
    said = f"tokens are numbered 0 to {last:,}, so r = {last:,} and delta = 1."
    return [Finding(NAME, True, said, 1, 1, theorems=THEOREMS, detail={"r": last, "delta": 1})]


def check(data: Vectors, d_model: int | None, *, rng: np.random.Generator) -> list[Finding]:
    """r, delta and the closest pair; `lower` and `upper` are delta."""
    rows = data.contexts.reshape(-1, data.d_model)
    first, _ = distinct_rows(rows)
    size = float(np.abs(rows).max()) or 1.0
    r = float(np.linalg.norm(rows / size, axis=1).max()) * size
    if len(first) == 1:
        said = f"there is one token only, of norm {r:.4g}; any delta will do."
        return [Finding(NAME, True, said, theorems=THEOREMS, detail={"r": r, "delta": None})]
    i, j, delta = closest_pair(rows[first])
    places = [[int(first[k]) // data.context, int(first[k]) % data.context] for k in (i, j)]
    blur = 4 * data.context_roundoff * r
    holds = True if delta > blur else None
    named = [
        (f"row {row + 1}" if data.shared else f"row {row + 1} of context {example + 1:,}") for example, row in places
    ]
    said = (
        f"r = {r:.4g} and delta = {delta:.4g} (r/delta {r / delta if delta else float('inf'):.3g}) over {len(first):,} "
        f"distinct tokens; closest are {named[0]} and {named[1]}"
    )
    if holds is None:
        said += f"; rounding alone accounts for {blur:.1g}, so they may be one token"
    return [
        Finding(
            assumption=NAME,
            holds=holds,
            explanation=said + ".",
            lower=delta,
            upper=delta,
            witness=places,
            theorems=THEOREMS,
            detail={"r": r, "delta": delta, "distinct_tokens": len(first)},
        )
    ]


CHECKS = {"facts": check_tokens, "sequences": check_tokens, "vectors": check}
