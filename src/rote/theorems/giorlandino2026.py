"""Capacity of a linear associative memory (Giorlandino, Goldt, Maillard 2026; a replica result, not a proof).

Statement: a d x d matrix that maps p random inputs in R^d to p random targets in R^d, so that every image scores higher
           with its own target than with any other, exists up to p ln p = d^2 / 2, for large d. That is
           1 / (2 ln 2) = 0.72 bits for each of its d^2 weights.
Notation:  d = d_model; p pairs, which are also p possible answers, so a fact has log2 p bits here.
Source:    arXiv 2605.10795 v1, known to us by its abstract.
Differs:   the paper derives it by methods of statistical physics for a model in which every input has competitors of
           its own, and gives numerical and analytical evidence that both models agree. It is a limit for inputs and
           targets that are given: fits that choose the targets' codes, as the argmax fit and the MLP fit do, may pass
           it, and were measured to hold 1.5 to 2.3 bits for a weight of W_O, 1.3 to 1.6 for one of W_down. At widths
           from 6 to 48 a convex fit of one matrix to given pairs was measured to hold 1.7 to 1.9 times as many as the
           limit (`rote reproduce questions/one_matrix`): corrections to the leading order are that large.
"""

from __future__ import annotations

import math

from rote.theorems import Bound, Citation, Setting, Theorem, condition
from rote.theorems._associative import pairs_at, shown

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "One matrix as a memory, replica result"
    kind = "empirical"
    citation = Citation(
        authors="Giorlandino, Goldt, Maillard",
        title="Factual recall in linear associative memories: sharp asymptotics and mechanistic insights",
        year=2026,
        where="storage capacity, abstract",
        arxiv="2605.10795v1",
    )
    statement = "A d x d matrix stores p random pairs up to p ln p = d^2/2 (statistical physics, not proved)."
    promises = "where a replica computation puts the limit for random pairs, as d grows"

    def bound(self, setting: Setting) -> Bound:
        d = setting.arch.d_model
        p = pairs_at(d * d, 0.5)
        return self.make(
            setting,
            facts=p,
            params=d * d,
            conditions=(
                condition("given pairs", None, "inputs and targets are random vectors that cannot be chosen"),
                condition("large d", None, f"an asymptotic result, and d = {d}"),
            ),
            formula=shown(d, p),
            counts="one d x d matrix",
            bits_per_fact=math.log2(p) if p > 1 else 0.0,
            own_shape=True,
        )


theorem = _Theorem()
