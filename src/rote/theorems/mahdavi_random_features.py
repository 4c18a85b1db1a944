"""Random attention features (rote; goes beyond Mahdavi, Liao, Thrampoulidis 2024, Theorem 1).

Statement: draw W_Q and W_K of H heads at random. With probability one the T x Hd matrix Z of head outputs has rank
           min(T, H(m - 1) + 1, H d) for one shared context of m distinct rows, and min(T, H d) for contexts of their
           own, for every head width d_h >= 1; then a linear readout interpolates as many real labels.
Notation:  H = n_heads, d = d_model, d_h = d_head, m = distinct context rows (at most n = context).
Source:    this project, measured; the upper limit for shared contexts is in arXiv 2306.02010 v3.
Differs:   ours: neither the head width nor the Kruskal rank of the queries limits the rank.
"""

from __future__ import annotations

from rote.theorems import Bound, Setting, Theorem, condition
from rote.theorems._citations import mahdavi2024
from rote.theorems.mahdavi2024_thm1 import COUNTS, layer_params

__all__ = ["feature_limit", "theorem"]


def feature_limit(heads: int, n: int, d: int, shared: bool) -> int:
    """The rank of the head outputs, for contexts that vary enough."""
    return min(heads * (n - 1) + 1, heads * d) if shared else heads * d


class _Theorem(Theorem):
    title = "One attention layer, random features"
    kind = "lower"
    citation = mahdavi2024("beyond Theorem 1, measured by rote")
    takes_vectors = True
    statement = "Random heads interpolate H(n - 1) + 1 labels over a shared context, H d over contexts of their own."
    promises = "recall of every fact, for random draws; measured, not proved"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        h, n, d = arch.n_heads, arch.context, arch.d_model
        facts = feature_limit(h, n, d, setting.shared_context)
        own = f"H d = {h} * {d} = {facts:,}"
        shared = f"min(H(n - 1) + 1, H d) = min({h}({n} - 1) + 1, {h} * {d}) = {facts:,}"
        return self.make(
            setting,
            facts=facts,
            params=layer_params(arch),
            conditions=(
                condition("contexts vary", None, "distinct context rows; contexts of their own span R^d together"),
                condition("distinct examples", None, "no two examples with the same context and query"),
            ),
            formula=shared if setting.shared_context else own,
            counts=COUNTS,
        )


theorem = _Theorem()
