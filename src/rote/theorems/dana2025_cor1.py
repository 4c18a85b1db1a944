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
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from rote.config import Architecture
from rote.errors import CapacityError
from rote.theorems import _dana
from rote.theorems._base import Bound, Demand, NoPlan, Plan, Setting, condition, stored_bytes
from rote.theorems._citations import dana2025
from rote.theorems._tokens import TokenBuilder

if TYPE_CHECKING:
    import numpy as np

    from rote.data import FactTable
    from rote.solvers.record import Construction, Options, Progress

__all__ = ["theorem"]

LARGEST_SOLVE = 12_000
"""Facts beyond which the T x T solve is refused: it would take more than a gigabyte for each copy of the matrix."""


class _Theorem(TokenBuilder):
    title = "Attention only, exact association"
    kind = "lower"
    citation = dana2025("Corollary 1")
    statement = "One attention-only layer recalls any H d_h + d facts, at any context length S >= 2, if L >= d."

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
            if widest < 2:
                return NoPlan(self.key, "every context ends in the same token, and d_model >= 2 needs two of them")
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
                d_head = max(w for w in range(1, min(d, need, 1024) + 1) if need % w == 0)
                pairs = [(need // d_head, d_head)]
            shapes += [
                Architecture(n_heads=h, d_model=d, d_head=w, context=demand.context, vocab=demand.vocab)
                for h, w in pairs
                if w <= d
            ]
        return shapes

    def shapes(self, demand: Demand) -> Iterator[Plan]:
        """The smallest shape, then wider ones: targets farther apart survive coarser number formats."""
        if demand.n_facts > LARGEST_SOLVE:
            return
        first = self.plan(demand)
        if isinstance(first, Plan) and self._resolved(first.architecture, demand):
            yield first
        if demand.d_model is not None:
            return
        widest = min(demand.distinct_last or demand.vocab, demand.n_facts)
        for d in (4, 8, 16, 32, 64):
            if d <= widest and (not isinstance(first, Plan) or d > first.architecture.d_model):
                answer = self.plan(replace(demand, d_model=d))
                if isinstance(answer, Plan):
                    yield answer

    @staticmethod
    def _resolved(arch: Architecture, demand: Demand) -> bool:
        """Whether the number format tells neighbours on a circle apart; the condition grows with the facts."""
        if arch.d_model > 2 or demand.d_model is not None:
            return True
        margin = 1 - math.cos(2 * math.pi / max(2, demand.n_targets or demand.vocab))
        noise = {"float64": 1e-14, "float32": 3e-6}.get(demand.dtype, 1e-2)
        return margin > noise * demand.n_facts

    def limit(self, data: FactTable, arch: Architecture, dtype: str) -> Bound:
        from rote.solvers.token_rank import rank_limit

        found = rank_limit(data.contexts, arch.vocab, arch.n_heads, arch.d_model, arch.d_head)
        # The limit of this table may be below the theorem's for want of distinct contexts; the theorem is then met.
        facts = found.value if found.value < data.n_facts else min(found.nominal, _dana.feature_rank(arch, arch.vocab))
        return self.make(
            self.setting(data, arch, dtype),
            facts=facts,
            params=arch.params("full"),
            conditions=(condition("rank of the features", True, found.reason),),
            formula=f"{_dana.formula(arch)}; these contexts allow {found.value:,}: {found.reason}"
            if found.value < data.n_facts
            else _dana.formula(arch),
        )

    def admit(self, data: FactTable, arch: Architecture) -> None:
        self.check_shape(data, arch)
        if data.n_facts > LARGEST_SOLVE:
            raise CapacityError(
                f"the exact solve takes a {data.n_facts:,} x {data.n_facts:,} matrix, and the limit is "
                f"{LARGEST_SOLVE:,} facts; use --with argmax_fit, which needs no such matrix."
            )

    def build(
        self, data: FactTable, arch: Architecture, *, rng: np.random.Generator, options: Options, progress: Progress
    ) -> Construction:
        import torch

        from rote.solvers.association import associate
        from rote.solvers.record import Construction, finite, stretch

        progress("associate", 0, 1, None)
        made = associate(
            data.contexts.copy(),
            data.targets.copy(),
            vocab=arch.vocab,
            n_heads=arch.n_heads,
            d_model=arch.d_model,
            d_head=arch.d_head,
            rng=rng,
            rank_one_qk=options.rank1_qk,
        )
        report, best = made.report, made.report.best
        names = ("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_O", "W_U")
        tensors = {name: torch.from_numpy(getattr(made.weights, name).copy()) for name in names}
        # Probabilities: stretch the readout, so that the smallest lead is worth a clear verdict. Recall is unchanged.
        tensors["W_U"] *= stretch(best.margin64, arch.vocab)
        if options.rank1_qk:
            tensors |= {name: tensors[name][:, :1].contiguous() for name in ("W_Q", "W_K")}
        return Construction(
            "transformer",
            arch,
            tensors,
            {
                "condition": finite(best.cond),
                "condition_fold": finite(best.cond_fold),
                "code": report.code,
                "draws": len(report.draws),
                "kept_draw": report.kept,
                "error_float64": finite(report.error64),
                "error_float32": finite(report.error32),
                "max_weight": finite(report.max_weight),
                "rank_limit": report.limit.value,
                "notes": list(report.notes),
            },
        )

    def examples(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture]]:
        from rote.data import random_facts

        found = []
        for heads, d, d_head, s, n in ((6, 2, 2, 3, 9), (4, 6, 3, 5, 12), (3, 8, 8, 2, 40), (5, 2, 1, 8, 30)):
            table = random_facts(heads * d_head + d, s, n, rng=rng)
            found.append((table, Architecture(heads, d, d_head, s, n)))
        return found

    def near_misses(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture, str]]:
        from rote.data import random_facts

        over = random_facts(15, 3, 9, rng=rng)
        alone = random_facts(9, 1, 9, rng=rng)
        narrow = random_facts(100, 2, 10, rng=rng)
        return [
            (over, Architecture(6, 2, 2, 3, 9), "15"),
            (alone, Architecture(6, 2, 2, 1, 9), "one token"),
            # H d_h + d = 144, but the rank is 8 * 10 + 10 = 90: the case that the paper omits.
            (narrow, Architecture(8, 16, 16, 2, 10), "90"),
        ]


theorem = _Theorem()
