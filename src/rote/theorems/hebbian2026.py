"""Hebbian MLPs and their margin (Hazy Research 2026).

Statement: an MLP that sums outer products of features of the keys and the values answers key i with margin at least
           min K (1 - mu) - 2 sqrt(2) sqrt(E L / (G d_int)) over every other value, with chance 1 - delta, where K is
           the Gram matrix of the features, min K its least diagonal entry, mu the coherence of the values, E the
           largest sum over a column of its squared entries off the diagonal, L = ln(T^2 / delta), G the number of
           averaged heads, d_int the dimension that interference effectively has. For isotropic keys and values the
           margin stays positive as long as T ln T is of order m d.
Notation:  m = d_mlp, d = d_model, T = n_facts.
Source:    arXiv 2607.10034, COLM 2026; the bound as the authors' program (HazyResearch/hebbian-mlps) states it. The
           authors' names were not at hand.
Differs:   constants of the isotropic case are fitted there, so for shapes it stays an order.
"""

from __future__ import annotations

from rote.theorems import Bound, Citation, Setting, Theorem, condition

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Hebbian MLPs, by margin"
    kind = "order"
    citation = Citation(
        authors="Hazy Research",
        title="MLPs are Hebbians: Constructing Efficient Fact-Storing MLPs for Transformers",
        year=2026,
        where="margin bound",
        arxiv="2607.10034",
        venue="COLM 2026",
    )
    statement = "Sums of outer products in an MLP answer right by a margin while T ln T is of order m d."
    promises = "recall with high probability, up to constants"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        weights = arch.d_mlp * arch.d_model
        return self.make(
            setting,
            params=weights or None,
            conditions=(
                condition("an MLP", arch.d_mlp > 0, f"d_mlp = {arch.d_mlp}"),
                condition("isotropic embeddings", None, "keys and values lie evenly on the sphere"),
            ),
            formula=f"T ln T = O(m d) = O({weights:,})",
            counts="the down projection",
        )


theorem = _Theorem()
