"""Noisy look-up tables (Dana, Pydi, Chevaleyre 2025, Theorem 2).

Statement: for distributions pi_t of full support and any look-up table g, the best sequence encoder of width d has
           divergence at most E_t (1 - pi(g(t)|t)) (1 + 2C + C d_TV) / (1 - 2C) log((N - 1) / (e^H(pi_t) - 1)), where
           C = sqrt(32 ln(N + 1) / d) must be below 1/2 and H is the entropy in nats.
Notation:  d = d_model, N = vocab, C = coherence of the unembedding, d_TV <= 1 a distance between distributions.
Source:    arXiv 2411.10115 v2.
Differs:   the printed C needs d > 128 ln(N + 1). The proof uses only that the rows of W are unit vectors with products
           of at most C, so the limits of a table of distributions also give the bound for the measured C of an
           optimised frame. It bounds a divergence, so no number of facts follows.
"""

from __future__ import annotations

import math

from rote.theorems import Bound, Setting, Theorem, condition
from rote.theorems._citations import dana2025

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Best encoder, noisy look-up tables"
    kind = "lower"
    citation = dana2025("Theorem 2")
    statement = (
        "Distributions close to a look-up table are held by any encoder whose N token vectors are nearly orthogonal."
    )
    promises = "a divergence; see the limits of a table of distributions"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        n, d = arch.vocab, arch.d_model
        C = math.sqrt(32 * math.log(n + 1) / d)
        need = 128 * math.log(n + 1)
        return self.make(
            setting,
            params=n * d,
            conditions=(
                condition("nearly orthogonal tokens", d > need, f"d > 128 ln(N + 1) = {need:.0f}: {d}"),
                condition("full support", None, "every next token has positive probability"),
            ),
            formula=f"C = sqrt(32 ln(N + 1) / d) = sqrt(32 ln({n + 1}) / {d}) = {C:.3g}, needs 1/2",
            counts="W_U",
        )


theorem = _Theorem()
