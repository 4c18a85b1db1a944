"""Multi-head attention under general position (Mahdavi, Liao, Thrampoulidis 2024).

Statement: if every d of the queries are independent (Kruskal rank d, "general position"), the bound analogous to
           Theorem 1 is T <= H (d - 1) + 1.
Notation:  H = n_heads, d = d_model, d_h = d_head, n = context.
Source:    arXiv 2306.02010 v3, comparison of assumptions.
Differs:   we add what the formula silently needs. Heads must be full width (d_h = d). If all examples share one context
           of n < d vectors, the rank of the head outputs is at most H (n - 1) + 1, so the claim would be false: then
           the condition fails.
"""

from __future__ import annotations

from rote.theorems import Bound, Setting, Theorem, condition
from rote.theorems._citations import mahdavi2024
from rote.theorems.mahdavi2024_thm1 import COUNTS, layer_params

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "One attention layer, general position"
    kind = "lower"
    citation = mahdavi2024("general position")
    statement = "If every d queries are independent, H full-width heads memorise H(d - 1) + 1 examples."

    def bound(self, setting: Setting) -> Bound:
        arch, q = setting.arch, setting.kruskal
        n, d = arch.context, arch.d_model
        facts = arch.n_heads * (d - 1) + 1
        if n >= d:
            contexts = condition("context spans R^d", None, f"every context must have rank {d}; depends on the data")
        elif setting.shared_context:
            contexts = condition(
                "context spans R^d", False, f"one shared context of {n} < {d} vectors limits the rank to H(n - 1) + 1"
            )
        else:
            contexts = condition("context spans R^d", None, f"{n} < {d} vectors: needs contexts that differ enough")
        position = condition(
            "general position of queries",
            None if q is None else q >= d,
            f"any {d} queries must be independent"
            + ("; depends on the data" if q is None else f", Kruskal rank is {q}"),
        )
        width = condition("full-width heads", arch.d_head >= d, f"d_head = {arch.d_head}, needs {d}")
        return self.make(
            setting,
            facts=facts,
            params=layer_params(arch),
            conditions=(position, contexts, width),
            formula=f"H(d - 1) + 1 = {arch.n_heads}({d} - 1) + 1 = {facts:,}",
            counts=COUNTS,
        )


theorem = _Theorem()
