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

import math

from rote.config import Architecture
from rote.theorems import _dana
from rote.theorems._base import Bound, Demand, NoPlan, Plan, Setting, Theorem, stored_bytes
from rote.theorems._citations import dana2025

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Attention only, exact association"
    kind = "lower"
    citation = dana2025("Corollary 1")
    statement = "One attention-only layer recalls any H d_h + d facts, at any context length S >= 2, if L >= d."
    constructive = True

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        return self.make(
            setting,
            facts=_dana.association_capacity(arch),
            params=arch.params("full"),
            conditions=_dana.conditions(setting),
            formula=_dana.formula(arch),
        )

    def plan(self, demand: Demand) -> Plan | NoPlan:
        if demand.context < 2:
            return NoPlan(
                self.key, "a context of one token gives the heads nothing to attend to; it needs context >= 2"
            )
        widest = demand.distinct_last or demand.vocab
        if demand.d_model is not None and demand.d_model > widest:
            return NoPlan(
                self.key,
                f"d_model = {demand.d_model} needs as many distinct last tokens, and there are at most {widest}",
            )
        if demand.d_model is not None and demand.d_model < 2:
            return NoPlan(self.key, "targets are told apart on a circle, so d_model must be at least 2")
        best: Architecture | None = None
        for arch in self._candidates(demand, widest):
            # Equal cost: fewer, wider heads.
            if best is None or (arch.params(), arch.n_heads) < (best.params(), best.n_heads):
                best = arch
        if best is None:
            d = demand.d_model or widest
            most = (demand.n_heads or 0) * d + d
            return NoPlan(self.key, f"{demand.n_heads} heads with d_head <= d_model <= {d} hold at most {most:,} facts")
        margin = 1 - math.cos(2 * math.pi / demand.vocab)
        note = f"targets on a circle, margin {margin:.1e}" if best.d_model == 2 else ""
        return Plan(
            construction=self.key,
            architecture=best,
            params=best.params(),
            bytes=stored_bytes(best.params(), demand.dtype),
            facts=_dana.association_capacity(best),
            note=note,
            dtype=demand.dtype,
        )

    @staticmethod
    def _candidates(demand: Demand, widest: int) -> list[Architecture]:
        """Shapes among which the cheapest is.

        At fixed d the cost grows with H d_h, so H d_h is the smallest that reaches T_0 - d. Over d the cost
        d (S + 2N) + 4 d (T_0 - d) is concave, so only the smallest and the largest admissible d matter.
        """
        facts, fixed = demand.n_facts, demand.n_heads
        if demand.d_model is not None:
            widths = [demand.d_model]
        else:
            least = 2 if fixed is None else max(2, -(-facts // (fixed + 1)))
            widths = sorted({least, least + 1, max(least, min(widest, facts))})
        shapes = []
        for d in widths:
            if d > widest:
                continue
            need = max(1, facts - d)
            if fixed is not None:
                d_head = -(-need // fixed)
                pairs = [(fixed, d_head)]
            else:
                # The widest head that divides the need; one of width d when rounding up costs nothing more.
                d_head = max(w for w in range(1, min(d, need) + 1) if need % w == 0)
                pairs = [(need // d_head, d_head)]
            shapes += [
                Architecture(n_heads=h, d_model=d, d_head=w, context=demand.context, vocab=demand.vocab)
                for h, w in pairs
                if w <= d
            ]
        return shapes


theorem = _Theorem()
