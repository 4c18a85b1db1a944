"""VC dimension of deep transformers (Yang, Srebro, Li 2026).

Statement: transformers of depth L with W parameters on inputs of n tokens have VC dimension O(L W log(n W)), and there
           are such of VC dimension Omega(L W log(n W / L)).
Notation:  L = n_layers, W = parameters, n = context (T in the paper).
Source:    arXiv 2606.09731 v1.
Differs:   nothing; constants are not given, so this stays an order.
"""

from __future__ import annotations

from rote.theorems import Bound, Setting, Theorem, condition
from rote.theorems._citations import yang2026

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "VC dimension at depth L"
    kind = "order"
    citation = yang2026("main theorem")
    statement = "W parameters at depth L shatter at most O(L W log(n W)) inputs."
    promises = "existence up to constants"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        w = arch.params("full")
        return self.make(
            setting,
            conditions=(condition("binary labels", arch.vocab == 2 or None, "stated for two labels"),),
            formula=f"O(L W log(n W)) = O({arch.n_layers} * {w:,} * log({arch.context} * {w:,}))",
        )


theorem = _Theorem()
