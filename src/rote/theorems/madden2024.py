"""Next-token distributions by parameter counting (Madden, Fox, Thrampoulidis 2024).

Statement: the largest number of distinct contexts for which a decoder-only transformer of k parameters can interpolate
           arbitrary next-token distributions over N tokens is Theta(k / (N - 1)).
Notation:  k = parameters, N = vocab.
Source:    arXiv 2405.13718 v3.
Differs:   nothing; the constant is not universal, so this stays an order. It speaks of whole distributions, N - 1
           numbers for a context, and not of single labels.
"""

from __future__ import annotations

from rote.theorems import Bound, Setting, Theorem, condition
from rote.theorems._citations import madden2024

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Arbitrary next-token distributions"
    kind = "order"
    citation = madden2024("upper and lower bounds")
    statement = "k parameters interpolate the next-token distributions of Theta(k/(N - 1)) contexts."
    promises = "distributions, up to constants"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        k = arch.params("full")
        return self.make(
            setting,
            conditions=(
                condition("analytic activation", None, "real-analytic and not a polynomial, for the lower half"),
            ),
            formula=f"Theta(k/(N - 1)) = Theta({k:,}/{arch.vocab - 1:,}) contexts",
        )


theorem = _Theorem()
