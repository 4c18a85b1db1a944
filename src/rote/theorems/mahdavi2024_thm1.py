"""Multi-head attention lower bound (Mahdavi, Liao, Thrampoulidis 2024, Theorem 1).

Statement: let T examples have contexts E_t (n rows in R^d, rank n), queries e_t in R^d of Kruskal rank at least n, and
           any real labels. With r = min(n, d_h), one layer of H heads of width d_h memorises all T labels whenever
           T <= H (r - 1) + 1.
Notation:  H = n_heads, d = d_model, d_h = d_head, n = context, T = n_facts, d_v = value width (1 for real labels).
Source:    arXiv 2306.02010 v3.
Differs:   nothing; parameters are counted for real labels, H (2 d d_h + d).
"""

from __future__ import annotations

from rote.config import Architecture
from rote.theorems import Bound, Condition, Setting, Theorem, condition
from rote.theorems._citations import mahdavi2024

__all__ = ["COUNTS", "layer_params", "rank_of_contexts", "theorem"]

COUNTS = "W_Q, W_K and a value row for each head, real labels; inputs are vectors, so no embedding is counted"


def layer_params(arch: Architecture) -> int:
    """H (2 d d_h + d): query and key maps, and a value row for each head (d_v = 1, readout absorbed)."""
    return arch.n_heads * (2 * arch.d_model * arch.d_head + arch.d_model)


def rank_of_contexts(arch: Architecture) -> Condition:
    """Assumption 2: every context matrix has rank n, which is impossible for n > d."""
    n, d = arch.context, arch.d_model
    if n > d:
        return condition("rank of contexts", False, f"{n} rows in {d} dimensions have rank at most {d}")
    return condition("rank of contexts", None, f"every context must have rank {n} (Assumption 2); depends on the data")


def _kruskal(setting: Setting) -> Condition:
    n, q = setting.arch.context, setting.kruskal
    name = "Kruskal rank of queries"
    if q is None:
        return condition(name, None, f"any {n} queries must be independent (Assumption 1); depends on the data")
    return condition(name, q >= n, f"Kruskal rank {q}, needs {n}")


class _Theorem(Theorem):
    title = "One attention layer, by softmax saturation"
    kind = "lower"
    citation = mahdavi2024("Theorem 1")
    takes_vectors = True
    statement = (
        "H heads memorise H(min(n, d_h) - 1) + 1 examples whose queries and contexts are in general enough position."
    )

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        r = min(arch.context, arch.d_head)
        facts = arch.n_heads * (r - 1) + 1
        return self.make(
            setting,
            facts=facts,
            params=layer_params(arch),
            conditions=(_kruskal(setting), rank_of_contexts(arch)),
            formula=f"H(min(n, d_h) - 1) + 1 = {arch.n_heads}(min({arch.context}, {arch.d_head}) - 1) + 1 = {facts:,}",
            counts=COUNTS,
        )


theorem = _Theorem()
