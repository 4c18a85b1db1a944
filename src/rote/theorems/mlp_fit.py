"""The MLP fit (rote): one attention layer mixes the tokens, a gated MLP stores the facts.

Statement: draw the embeddings, the heads and the gate and up maps of a gated MLP at random, whiten what the heads
           write, and choose the down projection to minimise the cross-entropy of the facts, a convex problem. For
           random tables every fact is recalled as long as T log2 C is below about 1.26 bits for each of the d m weights
           of the down projection. A feature costs 3 d weights here, 4 d in an attention head.
Notation:  d = d_model, m = d_mlp, C = distinct targets, T = n_facts.
Source:    this project, measured; the task is that of fact-storing MLPs.
Differs:   ours.
"""

from __future__ import annotations

from rote.theorems import Bound, Citation, Setting, Theorem, condition
from rote.theorems._capacity_estimates import mlp_capacity

__all__ = ["NARROWEST", "theorem"]

NARROWEST = 8
"""The narrowest stream that was measured."""


class _Theorem(Theorem):
    title = "Attention to mix, a gated MLP to store"
    kind = "empirical"
    citation = Citation(
        authors="rote",
        title="rote: how much a transformer can memorise, and the weights that do it",
        year=2026,
        where="mlp_fit",
        venue="this software",
    )
    statement = "A convex fit of a gated MLP's down projection holds about 1.2 bits per weight, for random tables."
    promises = "recall of random tables, measured; verified fact by fact when built"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        facts = mlp_capacity(arch.d_model, arch.d_mlp, arch.vocab)
        return self.make(
            setting,
            facts=facts or None,
            conditions=(
                condition("random targets", None, "structured tables hold more or less than random ones"),
                condition("a gated MLP", arch.d_mlp > 0 and arch.gated, f"d_mlp = {arch.d_mlp}, gated = {arch.gated}"),
                condition(
                    "heads fill the stream",
                    arch.n_heads * arch.d_head >= arch.d_model,
                    f"H d_h = {arch.n_heads * arch.d_head}, needs d_model = {arch.d_model}",
                ),
                condition("one layer", arch.n_layers == 1, f"n_layers = {arch.n_layers}"),
                condition("wide enough", arch.d_model >= NARROWEST, f"d_model = {arch.d_model}, measured from 8"),
            ),
            formula=f"about 1.1 d m/log2 C = 1.1 * {arch.d_model} * {arch.d_mlp}/log2 {arch.vocab:,} = {facts:,}",
        )


theorem = _Theorem()
