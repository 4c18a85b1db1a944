"""Sequence-to-sequence memorisation (Kim, Kim, Mozafari 2023).

Statement: transformers memorise T sequence-to-sequence mappings of length n with tokens in R^d using
           O~(d + n + sqrt(n T)) parameters.
Notation:  d = d_model, n = context, T = n_facts, W = parameters.
Source:    ICLR 2023.
Differs:   nothing; constants and logarithms are not given, so this stays an order.
"""

from __future__ import annotations

from rote.theorems import Bound, Setting, Theorem, condition
from rote.theorems._citations import kim2023

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Sequence to sequence, earlier bound"
    kind = "order"
    citation = kim2023("main theorem")
    statement = "O~(d + n + sqrt(n T)) parameters suffice for T sequence-to-sequence mappings."
    promises = "existence up to constants and logarithms"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        return self.make(
            setting,
            conditions=(condition("separated tokens", None, "tokens are equal or some distance apart"),),
            formula=f"O~(d + n + sqrt(n T)) = O~({arch.d_model} + {arch.context} + sqrt({arch.context} T)) parameters",
        )


theorem = _Theorem()
