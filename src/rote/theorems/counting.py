"""The counting bound.

Statement: W weights of B bits each take at most 2^(W B) values, and T facts with N possible targets can be given in N^T
           ways; so memorising every table of T facts needs W B >= T log2 N.
Notation:  W = all weights of the shape, B = bits of the number format, N = vocab, T = n_facts.
Source:    folklore; stated for transformers in arXiv 2409.17677.
Differs:   nothing.
"""

from __future__ import annotations

import math

from rote.config import bits_of
from rote.theorems import Bound, Setting, Theorem, condition
from rote.theorems._citations import kajitsuka2025

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Counting bits"
    kind = "upper"
    citation = kajitsuka2025("bit complexity (folklore)")
    statement = "W weights of B bits hold at most W B / log2 N arbitrary facts."

    def bound(self, setting: Setting) -> Bound:
        w, bits, n = setting.arch.params("full"), bits_of(setting.dtype), setting.arch.vocab
        if bits is None:
            facts, formula = None, f"W B/log2 N = {w:,} B/log2 {n:,}, with B unbounded"
        else:
            facts = math.floor(w * bits / math.log2(n))
            formula = f"W B/log2 N = {w:,} * {bits}/log2 {n:,} = {facts:,}"
        return self.make(
            setting,
            facts=facts,
            conditions=(
                condition(
                    "finite precision", bits is not None, f"{setting.dtype}" + (f", {bits} bits" if bits else "")
                ),
            ),
            formula=formula,
        )


theorem = _Theorem()
