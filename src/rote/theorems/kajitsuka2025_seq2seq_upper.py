"""Omega~(sqrt(n T)) parameters are needed (Kajitsuka, Sato 2025, optimality for sequence to sequence).

Statement: transformers with hardmax attention need Omega~(sqrt(n T)) parameters to label every position of any T
           sequences of length n.
Notation:  T = n_facts (sequences), n = context, W = parameters.
Source:    arXiv 2409.17677.
Differs:   nothing; constants are not given, so this stays an order.
"""

from __future__ import annotations

from rote.theorems import Bound, Setting, Theorem, condition
from rote.theorems._citations import kajitsuka2025

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Sequence to sequence, parameters needed"
    kind = "order"
    citation = kajitsuka2025("optimality, sequence to sequence")
    statement = "Hardmax transformers need Omega~(sqrt(n T)) parameters to label every position of T sequences."
    promises = "existence up to constants and logarithms"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        w = arch.params("full")
        return self.make(
            setting,
            conditions=(condition("hardmax attention", None, "proved for hardmax only"),),
            formula=f"W = Omega~(sqrt(n T)), so T = O~(W^2/n) = O~({w:,}^2 / {arch.context})",
        )


theorem = _Theorem()
