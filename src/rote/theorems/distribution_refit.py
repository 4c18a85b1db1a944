"""Distributions by a convex refit (rote; after Dana, Pydi, Chevaleyre 2025, Theorem 1).

Statement: take the best sequence encoder W, E of width d and random heads with H d_h + d >= T_eps. The map Psi from the
           features of all contexts to the residual stream that minimises the prior-weighted divergence, W being fixed,
           is a convex problem. Its divergence exceeded the encoder's by about eps nats on every table that we measured;
           at eps = 0 it is the encoder's, as in Theorem 1.
Notation:  H = n_heads, d = d_model, d_h = d_head, T_eps = the fewest contexts whose prior exceeds 1 - eps.
Source:    this project; after arXiv 2411.10115 v2.
Differs:   Theorem 1 interpolates the likely contexts and leaves the others to chance, which is worse than a uniform
           guess already at small eps. The refit keeps its features and its unembedding. No number of facts follows.
"""

from __future__ import annotations

from rote.theorems import Bound, Setting, Theorem, _dana, condition
from rote.theorems._citations import dana2025

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Attention only, distributions refitted"
    kind = "empirical"
    citation = dana2025("Theorem 1, refitted by rote")
    statement = (
        "A convex fit of all distributions on the features of Theorem 1 costs about eps nats over the best encoder."
    )
    promises = "a divergence; measured, not proved"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        return self.make(
            setting,
            conditions=(
                *_dana.conditions(setting),
                condition("full support", None, "every next token has positive probability"),
            ),
            formula=f"T_eps <= {_dana.formula(arch)} contexts, divergence about eps over the best encoder",
        )


theorem = _Theorem()
