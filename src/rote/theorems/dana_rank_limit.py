"""What exact association really reaches (rote; corrects Dana, Pydi, Chevaleyre 2025, Corollary 1).

Statement: the features of H heads of width d_h and of the skip connection have rank
           H min(d_h, N + S - 2) + min(d, L) for S >= 2, and min(d, L) for S = 1, when embeddings and heads are drawn at
           random and the contexts vary enough; as many facts can be given arbitrary target vectors by a linear solve.
           It equals H d_h + d exactly when the paper's rank condition holds.
Notation:  H = n_heads, d = d_model, d_h = d_head, S = context, N = vocab, L = distinct last tokens.
Source:    this project, measured on random shapes; after arXiv 2411.10115 v2.
Differs:   ours: a head's output is an average of token and position vectors, N + S - 2 free directions.
"""

from __future__ import annotations

from rote.theorems import Bound, Setting, Theorem, _dana, condition
from rote.theorems._citations import dana2025

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Attention only, rank of the features"
    kind = "lower"
    citation = dana2025("Corollary 1, corrected by rote")
    promises = "recall of every fact, for random draws; measured, not proved"
    statement = "Random heads and the skip span H min(d_h, N + S - 2) + min(d, L) directions, one fact each."

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        last = setting.distinct_last if setting.distinct_last is not None else arch.vocab
        facts = _dana.feature_rank(arch, last)
        shown = f"{last}" if setting.distinct_last is not None else f"L <= {last}"
        if arch.context == 1:
            formula = f"min(d, L) = min({arch.d_model}, {shown}) = {facts:,}"
        else:
            formula = (
                f"H min(d_h, N + S - 2) + min(d, L)"
                f" = {arch.n_heads} min({arch.d_head}, {arch.vocab} + {arch.context} - 2)"
                f" + min({arch.d_model}, {shown}) = {facts:,}"
            )
        kept = ("distinct contexts", "width of heads")
        conditions = (
            *(item for item in _dana.conditions(setting) if item.name in kept),
            condition(
                "distinct last tokens",
                None if setting.distinct_last is None else True,
                f"L = {last}"
                + (", the most there can be; depends on the data" if setting.distinct_last is None else ""),
            ),
        )
        return self.make(setting, facts=facts, conditions=conditions, formula=formula)


theorem = _Theorem()
