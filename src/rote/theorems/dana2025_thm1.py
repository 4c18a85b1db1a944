"""Distributions (Dana, Pydi, Chevaleyre 2025, Theorem 1).

Statement: let pi give every context a prior and a next-token distribution of full support, and let T_eps be the fewest
           contexts whose prior exceeds 1 - eps. If H d_h + d >= T_eps, there is a one-layer attention-only transformer
           whose divergence from pi is at most that of the best sequence encoder of width d plus
           C eps ||W E||_2 + gamma, for every gamma > 0.
Notation:  H = n_heads, d = d_model, d_h = d_head, T_eps = contexts that matter.
Source:    arXiv 2411.10115 v2.
Differs:   the rank condition of Corollary 1 applies here too; `facts` counts contexts. As built here
           the skip is folded in exactly, so gamma is 0; C is that of equation 14 with
           the factor 2 of equation 13. For eps > 0 the construction is poor: see `distribution_refit`.
"""

from __future__ import annotations

from rote.theorems import Bound, Setting, Theorem, _dana, condition
from rote.theorems._citations import dana2025

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Attention only, next-token distributions"
    kind = "lower"
    citation = dana2025("Theorem 1")
    statement = (
        "One attention-only layer gives H d_h + d contexts the best distributions that any model of width d can."
    )
    promises = "the divergence of the best sequence encoder"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        return self.make(
            setting,
            facts=_dana.association_capacity(arch),
            conditions=(
                *_dana.conditions(setting),
                condition("full support", None, "every next token has positive probability"),
            ),
            formula=f"T_eps <= {_dana.formula(arch)} contexts",
        )


theorem = _Theorem()
