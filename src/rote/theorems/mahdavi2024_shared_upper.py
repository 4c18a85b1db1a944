"""Upper bound for a shared context (Mahdavi, Liao, Thrampoulidis 2024, tightness of Theorem 1).

Statement: if all examples share one context of n vectors in R^d, the T x Hd matrix Z of head outputs has rank at most
           H (n - 1) + 1: each head's output is a mixture of the same n vectors with weights that sum to one. So no more
           than that many examples can be given arbitrary real labels by a linear readout.
Notation:  H = n_heads, n = context, d = d_model.
Source:    arXiv 2306.02010 v3.
Differs:   we take the minimum with H d, the number of columns of Z, which matters for n > d.
"""

from __future__ import annotations

from rote.theorems import Bound, Setting, Theorem, condition
from rote.theorems._citations import mahdavi2024
from rote.theorems.mahdavi2024_thm1 import COUNTS, layer_params

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "One attention layer, one context for all"
    kind = "upper"
    citation = mahdavi2024("tightness of Theorem 1")
    statement = "With one shared context, no more than H(n - 1) + 1 examples can have arbitrary real labels."

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        h, n, d = arch.n_heads, arch.context, arch.d_model
        facts = min(h * (n - 1) + 1, h * d)
        return self.make(
            setting,
            facts=facts,
            params=layer_params(arch),
            conditions=(
                condition(
                    "one shared context",
                    setting.shared_context,
                    "as given" if setting.shared_context else "examples have contexts of their own",
                ),
                condition(
                    "one layer, linear readout",
                    arch.n_layers == 1 and arch.d_mlp == 0,
                    f"n_layers = {arch.n_layers}, d_mlp = {arch.d_mlp}; more layers are not limited by this rank",
                ),
                condition("real labels", None, "labels read off by argmax are not limited by the rank"),
            ),
            formula=f"min(H(n - 1) + 1, H d) = min({h}({n} - 1) + 1, {h} * {d}) = {facts:,}",
            counts=COUNTS,
        )


theorem = _Theorem()
