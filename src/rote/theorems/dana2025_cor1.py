"""Exact association (Dana, Pydi, Chevaleyre 2025, Corollary 1).

Statement: for every table of T_0 distinct contexts of any length S over N tokens, each with one next token, there is a
           one-layer attention-only transformer with T_0 = H d_h + d that recalls all of them, in
           d (S + 2N + 4 d_h H) parameters; d = 2 is enough (targets on a circle), with 2 (S + 2N + 4 (T_0 - 2)).
Notation:  H = n_heads, d = d_model, d_h = d_head, S = context, N = vocab, T_0 = n_facts, L = distinct last tokens.
Source:    arXiv 2411.10115 v2.
Differs:   we add the rank condition that the proof needs and the paper omits: d <= N + S - 2 and L >= d (see
           `dana_rank_limit` for what holds otherwise), and S >= 2.
"""

from __future__ import annotations

from rote.theorems import Bound, Setting, Theorem, _dana
from rote.theorems._citations import dana2025

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Attention only, exact association"
    kind = "lower"
    citation = dana2025("Corollary 1")
    statement = "One attention-only layer recalls any H d_h + d facts, at any context length S >= 2, if L >= d."

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        return self.make(
            setting,
            facts=_dana.association_capacity(arch),
            conditions=_dana.conditions(setting),
            formula=_dana.formula(arch),
        )


theorem = _Theorem()
