"""Omega~(sqrt T) parameters are needed (Kajitsuka, Sato 2025, optimality for next-token labels).

Statement: no architecture of W real weights with piecewise polynomial activations labels every set of T sequences in
           every way if T > 16 W^2 + 8 W. On sequences of equal tokens attention does nothing, so the network is a ReLU
           network computed in t <= 4 W operations, and its VC dimension is at most 4 W (t + 2) (Goldberg, Jerrum 1995;
           Anthony, Bartlett 1999, Theorem 8.4).
Notation:  T = n_facts, W = all weights of the shape.
Source:    arXiv 2409.17677; constants by this project.
Differs:   the paper states the order Omega~(sqrt T); the constants are ours.
"""

from __future__ import annotations

import math

from rote.theorems import Bound, Setting, Theorem, condition
from rote.theorems._citations import kajitsuka2025

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "VC bound for exact weights"
    kind = "upper"
    citation = kajitsuka2025("optimality, next-token prediction")
    statement = "W real weights cannot label all sets of more than 16 W^2 + 8 W sequences in all ways."

    def bound(self, setting: Setting) -> Bound:
        w = setting.arch.params("full")
        facts = 16 * w * w + 8 * w
        return self.make(
            setting,
            facts=facts,
            conditions=(
                condition("piecewise polynomial units", None if setting.arch.gated else True, "ReLU, or no MLP at all"),
                condition("tokens range over R^d", None, "with a finite table of embeddings there are fewer sequences"),
            ),
            bits_per_fact=math.nan,
            formula=f"16 W^2 + 8 W = 16 * {w:,}^2 + 8 * {w:,} = {facts:,}",
        )


theorem = _Theorem()
