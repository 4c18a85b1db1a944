"""Learning by chains of thought (Yang, Srebro, Li 2026, second half).

Statement: transformers of depth L with W parameters that read n tokens and write t more learn from examples with their
           whole chain of thought: a predictor that agrees with every chain needs O(L W log((n + t) W)) examples, and
           any rule that learns from chains needs Omega(L W log((n + t) W / L)).
Notation:  L = n_layers, W = parameters; n + t = context: n tokens are read (T in the paper), t are written (T').
Source:    arXiv 2606.09731 v1, COLT 2026, known to us by its abstract.
Differs:   nothing; constants are not given, so this stays an order. It is about examples that are needed to learn, not
           about facts that fit; for one output it is the VC dimension (yang2026_vc).
"""

from __future__ import annotations

from rote.theorems import Bound, Setting, Theorem, condition
from rote.theorems._citations import yang2026

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Examples needed to learn chains of thought"
    kind = "order"
    citation = yang2026("chain of thought, abstract")
    statement = "Chains of t tokens after n are learned from Theta~(L W log((n + t) W)) examples."
    promises = "a number of examples, up to constants"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        w, tokens = arch.params("full"), arch.context
        return self.make(
            setting,
            conditions=(condition("whole chains", None, "every step of a chain is in the data"),),
            formula=f"Theta~(L W log((n + t) W)) = Theta~({arch.n_layers} * {w:,} * log({tokens} * {w:,})) examples",
        )


theorem = _Theorem()
