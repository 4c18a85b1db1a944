"""The argmax fit (rote): several times more facts per parameter than exact association.

Statement: draw W_E, W_pos, W_Q, W_K, W_V at random, leave the skip connection as it is, and choose W_O to minimise the
           cross-entropy of the facts, a convex problem. The rows of W_U are chosen before: Fisher's discriminant
           directions of the features. For random tables the minimum recalls every fact as long as T log2 C is below
           about 1.4 k (P + 0.7 C), with P = H min(d_h, N + S - 2) features and k = min(d, C - 1, P/3): 1.4 bits for
           each weight of W_O, half as much for each weight of W_U. Exact association needs T <= H d_h + d for
           arbitrary target vectors; recall only asks for the right argmax.
Notation:  H = n_heads, d = d_model, d_h = d_head, S = context, N = vocab, C = distinct targets, T = n_facts.
Source:    this project, measured; the features are those of arXiv 2411.10115 v2.
Differs:   ours.
"""

from __future__ import annotations

from rote.theorems import Bound, Setting, Theorem, condition
from rote.theorems._capacity_estimates import argmax_capacity
from rote.theorems._citations import dana2025

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Attention only, convex fit of the argmax"
    kind = "empirical"
    citation = dana2025("features of Theorem 1; fit by rote")
    statement = "A convex fit of W_O on random heads holds about 1.4 bits per weight of it, for random tables."
    promises = "recall of random tables, measured; verified fact by fact when built"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        facts = argmax_capacity(arch, arch.vocab, setting.dtype)
        return self.make(
            setting,
            facts=facts or None,
            conditions=(
                condition("random targets", None, "structured tables hold more or less than random ones"),
                condition("width of heads", arch.d_head <= arch.d_model, f"{arch.d_head} of {arch.d_model}"),
                condition("context of two or more", arch.context >= 2, f"context = {arch.context}"),
                condition("room for targets", arch.d_model > 1, "on a line only two targets can win"),
            ),
            formula=f"about 1.1 k (P + 0.7 C)/log2 C, P = {arch.n_heads} min({arch.d_head}, N + S - 2): {facts:,}",
        )


theorem = _Theorem()
