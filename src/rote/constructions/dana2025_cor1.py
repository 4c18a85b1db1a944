"""Exact association: the proof of Corollary 1 carried out, with one T x T solve. See `rote.theorems.dana2025_cor1`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rote.config import Architecture, Dtype
from rote.constructions._base import Job, Needs, NoPlan, Options, Plan, option, solve_needs
from rote.constructions._data import TokenConstruction
from rote.data.verification import finite
from rote.errors import CapacityError
from rote.theorems import Bound, Demand, _dana, condition

if TYPE_CHECKING:
    import numpy as np

    from rote.data import FactTable
    from rote.models import Model

__all__ = ["ExactAssociation", "construction"]

LARGEST_SOLVE = 12_000
"""Facts beyond which the T x T solve is refused: it would take more than a gigabyte for each copy of the matrix."""


@dataclass(frozen=True)
class ExactAssociation(Options):
    """What exact association may be told."""

    rank1_qk: bool = option(False, "Query-key maps of rank 1 (fewer parameters).")


def _refuse_large(n_facts: int) -> None:
    if n_facts > LARGEST_SOLVE:
        raise CapacityError(
            f"the exact solve takes a {n_facts:,} x {n_facts:,} matrix, and the limit is {LARGEST_SOLVE:,} facts; use "
            "argmax_fit, which needs no such matrix."
        )


_TRIED = 2048
"""Facts up to which an attempt takes seconds, so that a narrow shape is tried even if its targets lie close."""


def _resolved(demand: Demand, d_model: int) -> bool:
    """Whether the number format tells neighbours on a circle or a sphere apart; the condition grows with the facts."""
    count = max(2, demand.n_targets or demand.vocab)
    if d_model > 3:
        return True
    margin = 1 - math.cos(2 * math.pi / count) if d_model == 2 else 4 * math.pi / (math.sqrt(3) * count)
    noise = {"float64": 1e-14, "float32": 3e-6}.get(demand.dtype, 1e-2)
    return margin > noise * demand.n_facts


class _Construction(TokenConstruction[ExactAssociation]):
    Options = ExactAssociation
    title = "Attention only, exact association"

    def asked(self, demand: Demand, options: ExactAssociation) -> Demand:
        return replace(demand, convention="rank1_qk") if options.rank1_qk else demand

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
            if best is None or demand.cost(arch) < demand.cost(best):
                best = arch
        if best is None:
            if widest < 2:
                return NoPlan(self.key, "every context ends in the same token, and d_model >= 2 needs two of them")
            d = demand.d_model or widest
            most = (demand.n_heads or 0) * d + d
            return NoPlan(self.key, f"{demand.n_heads} heads with d_head <= d_model <= {d} hold at most {most:,} facts")
        margin = 1 - math.cos(2 * math.pi / demand.vocab)
        note = f"targets on a circle, margin {margin:.1e}" if best.d_model == 2 else ""
        return self.as_plan(best, demand, facts=_dana.association_capacity(best), note=note)

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
            first = next((d for d in range(2, min(4, widest)) if _resolved(demand, d)), max(2, min(4, widest)))
            least = first if fixed is None else max(first, -(-facts // (fixed + 1)))
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
            shapes += [demand.shape(h, d, w) for h, w in pairs if w <= d]
        return shapes

    def variants(self, demand: Demand, plan: Plan) -> Iterator[Plan]:
        """Narrow shapes that may do where the table is small enough to try, the smallest shape that should, then wider
        ones: targets farther apart survive coarser number formats."""
        _refuse_large(demand.n_facts)
        if demand.d_model is not None:
            yield plan
            return
        widest, width = min(demand.distinct_last or demand.vocab, demand.n_facts), plan.architecture.d_model
        for d in sorted({2, 3, 4, 8, 16, 32, 64, width}):
            answer = plan if d == width else self.plan(replace(demand, d_model=d)) if d <= widest else None
            tried = _resolved(demand, d) or demand.n_facts <= _TRIED
            if isinstance(answer, Plan) and tried and (d >= width or answer.params < plan.params):
                yield answer

    def needs(self, demand: Demand, plan: Plan) -> Needs:
        arch = plan.architecture
        return solve_needs(demand.n_facts, arch.n_heads * arch.d_head + arch.d_model)

    def limit(self, table: FactTable, arch: Architecture, dtype: Dtype) -> Bound:
        from rote.solvers.token_rank import rank_limit

        rank = rank_limit(table.contexts, arch.vocab, arch.n_heads, arch.d_model, arch.d_head)
        # The limit of this table may be below the theorem's for want of distinct contexts; the theorem is then met.
        short = rank.value < table.n_facts
        formula = _dana.formula(arch)
        return self.statement.make(
            self.setting(table, arch, dtype),
            facts=rank.value if short else min(rank.nominal, _dana.feature_rank(arch, arch.vocab)),
            conditions=(condition("rank of the features", True, rank.reason),),
            formula=f"{formula}; these contexts allow {rank.value:,}: {rank.reason}" if short else formula,
        )

    def check(self, table: FactTable, arch: Architecture, options: ExactAssociation) -> None:
        super().check(table, arch, options)
        _refuse_large(table.n_facts)

    def solve(self, job: Job[FactTable, ExactAssociation]) -> Model:
        from rote.solvers.association import associate

        job.progress("associate", 0, 0, None)
        table, arch = job.table, job.arch
        association = associate(
            table.contexts.copy(),
            table.targets.copy(),
            vocab=arch.vocab,
            n_heads=arch.n_heads,
            d_model=arch.d_model,
            d_head=arch.d_head,
            rng=job.rng,
            rank_one_qk=job.options.rank1_qk,
        )
        report, best = association.report, association.report.best
        weights = association.weights.stored(rank_one_qk=job.options.rank1_qk)
        said = {
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
        }
        return self.transformer(job, weights, best.margin64, said)

    def examples(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture]]:
        from rote.data import random_facts

        sizes = ((6, 2, 2, 3, 9), (4, 6, 3, 5, 12), (3, 8, 8, 2, 40), (5, 2, 1, 8, 30))
        shapes = [Architecture(*each) for each in sizes]
        return [
            (random_facts(_dana.association_capacity(arch), arch.context, arch.vocab, rng=rng), arch) for arch in shapes
        ]

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


construction = _Construction()
