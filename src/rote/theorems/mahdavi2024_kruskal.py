"""Multi-head attention with dependent queries (Mahdavi, Liao, Thrampoulidis 2024, Theorem 1 weakened).

Statement: as Theorem 1, but the queries have Kruskal rank Q < n. One layer of H heads of width d_h memorises any real
           labels of T <= H (min(Q, d_h) - 1) + 1 examples.
Notation:  H = n_heads, d_h = d_head, n = context, Q = kruskal.
Source:    arXiv 2306.02010 v3, discussion of Theorem 1.
Differs:   written with min(n, Q, d_h), so that it joins up with Theorem 1 at Q >= n.
"""

from __future__ import annotations

from rote.theorems import Bound, Setting, Theorem, condition
from rote.theorems._citations import mahdavi2024
from rote.theorems.mahdavi2024_thm1 import COUNTS, layer_params, rank_of_contexts

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "One attention layer, dependent queries"
    kind = "lower"
    citation = mahdavi2024("Theorem 1, Kruskal rank below n")
    statement = "If any Q queries are independent but not any n, H heads memorise H(min(Q, d_h) - 1) + 1 examples."

    def bound(self, setting: Setting) -> Bound:
        arch, q = setting.arch, setting.kruskal
        facts = None
        if q is None:
            known = condition("Kruskal rank of queries", None, "not given")
            formula = f"H(min(n, Q, d_h) - 1) + 1 = {arch.n_heads}(min({arch.context}, Q, {arch.d_head}) - 1) + 1"
        else:
            known = condition("Kruskal rank of queries", True, f"Q = {q}, as given")
            facts = arch.n_heads * (min(arch.context, q, arch.d_head) - 1) + 1
            formula = (
                f"H(min(n, Q, d_h) - 1) + 1 = {arch.n_heads}(min({arch.context}, {q}, {arch.d_head}) - 1) + 1"
                f" = {facts:,}"
            )
        return self.make(
            setting,
            facts=facts,
            params=layer_params(arch),
            conditions=(known, rank_of_contexts(arch)),
            formula=formula,
            counts=COUNTS,
        )


theorem = _Theorem()
