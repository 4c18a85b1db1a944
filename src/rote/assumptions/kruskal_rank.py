"""Assumption 1 of Mahdavi, Liao, Thrampoulidis 2024: any n queries are independent (Kruskal rank at least n).

With fewer than n examples the theorem only ever uses all of them, so any min(n, T) must be independent.
"""

from __future__ import annotations

import numpy as np

from rote.assumptions._common import SAMPLES, query_kruskal, words
from rote.assumptions._finding import Finding
from rote.assumptions._kruskal import Kruskal
from rote.assumptions._sampling import Share
from rote.assumptions._vectors import Vectors

__all__ = ["CHECKS", "NAME", "THEOREMS", "check"]

NAME = "Kruskal rank of queries"
THEOREMS = ("mahdavi2024_thm1",)


def check(data: Vectors, d_model: int | None, *, rng: np.random.Generator) -> list[Finding]:
    """The interval of the Kruskal rank against n."""
    needed = min(data.context, data.n_facts)
    return [interval_finding(NAME, THEOREMS, query_kruskal(data, rng), needed, data, rng)]


def interval_finding(
    name: str, theorems: tuple[str, ...], found: Kruskal, needed: int, data: Vectors, rng: np.random.Generator
) -> Finding:
    """A finding from an interval of the Kruskal rank: needed are `needed` independent queries, whichever."""
    holds = found.at_least(needed)
    share = data.keep(("share", needed), lambda: found.sample(needed, SAMPLES, rng))
    parts = [f"any {needed} of {data.n_facts:,} queries must be independent"]
    if found.lower == found.upper:
        parts.append(
            f"any {found.lower} are and not any {found.lower + 1}" if holds is False else f"any {found.lower} are"
        )
        parts[-1] += f" ({found.lower_by if holds else found.upper_by})"
    else:
        parts.append(f"any {found.lower} are ({found.lower_by})")
        parts.append(f"not more than any {found.upper} ({found.upper_by})")
    if found.witness and holds is False:
        kind = "query" if len(found.witness) == 1 else "queries"
        what = "is zero" if len(found.witness) == 1 else "are dependent"
        parts.append(f"{kind} {words(found.witness)} {what}")
    parts.append(share_words(share))
    if holds is None:
        parts.append("neither is proof for all subsets, so this stays open")
    offenders = list(found.witness) if holds is False else []
    return Finding(
        assumption=name,
        holds=holds,
        explanation="; ".join(parts) + ".",
        lower=found.lower,
        upper=found.upper,
        witness=list(found.witness) or None,
        offenders=offenders,
        n_offenders=len(offenders),
        theorems=theorems,
        detail={
            "needed": needed,
            "lower_by": found.lower_by,
            "upper_by": found.upper_by,
            "coefficients": list(found.coefficients),
            "residual": found.residual,
            "distinct_directions": found.n_classes,
            "rank": {"lower": found.rank.lower, "upper": found.rank.upper},
            "sampled": share.to_dict(),
        },
    )


def share_words(share: Share) -> str:
    """The sampling test in a sentence."""
    if share.exact:
        return f"so {'every' if share.share == 1 else 'no'} set of {share.size} queries is independent"
    doubts = f", {share.doubtful:,} too close to call" if share.doubtful else ""
    return (
        f"of {share.count:,} random sets of {share.size}, {share.independent:,} are independent{doubts} "
        f"(share {100 * share.low:.2f} to {100 * share.high:.2f} %, Clopper-Pearson 95 %)"
    )


CHECKS = {"vectors": check}
