"""Softmax saturation: the proof of Theorem 1 carried out, a group of examples for each head.

See `rote.theorems.mahdavi2024_thm1`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rote.config import Architecture, Dtype
from rote.constructions._base import Job, Needs, NoPlan, Options, Plan, solve_needs
from rote.constructions._data import VectorConstruction
from rote.theorems import Bound, Demand, condition
from rote.theorems.mahdavi2024_thm1 import COUNTS, layer_params, rank_of_contexts

if TYPE_CHECKING:
    import numpy as np

    from rote.data import VectorTable
    from rote.models import Model

__all__ = ["Saturation", "construction"]


@dataclass(frozen=True)
class Saturation(Options):
    """There is nothing to be told."""


class _Construction(VectorConstruction[Saturation]):
    Options = Saturation
    title = "One attention layer, by softmax saturation"

    def plan(self, demand: Demand) -> Plan | NoPlan:
        n, d = demand.context, demand.d_model or demand.context
        if d < n:
            return NoPlan(self.key, f"contexts of {n} vectors have rank {n} only if d_model is at least {n}, not {d}")
        if n == 1 and demand.n_facts > 1:
            return NoPlan(self.key, "a context of one vector holds one fact whatever the heads; it needs context >= 2")
        best: Architecture | None = None
        for r in {*range(min(2, n), min(n, 4096) + 1), n}:
            heads = max(1, -(-(demand.n_facts - 1) // max(1, r - 1)))
            if demand.n_heads is not None:
                if heads > demand.n_heads:
                    continue
                heads = demand.n_heads
            arch = Architecture(n_heads=heads, d_model=d, d_head=r, context=n, vocab=demand.vocab)
            if best is None or layer_params(arch) < layer_params(best):
                best = arch
        if best is None:
            most = (demand.n_heads or 0) * (n - 1) + 1
            return NoPlan(self.key, f"{demand.n_heads} heads on contexts of {n} hold at most {most:,} facts")
        return self.as_plan(
            best,
            demand,
            params=layer_params(best),
            facts=best.n_heads * (best.d_head - 1) + 1,
            note="for vectors in general position with real labels; no embedding counted",
            counts=COUNTS,
        )

    def needs(self, demand: Demand, plan: Plan) -> Needs:
        arch = plan.architecture
        return solve_needs(demand.n_facts, arch.n_heads * arch.context)

    def limit(self, table: VectorTable, arch: Architecture, dtype: Dtype) -> Bound:
        import numpy as np

        # The Kruskal rank is at most the matrix rank; where it is smaller still, `solve` finds the dependent group.
        q = int(np.linalg.matrix_rank(table.queries))
        r = min(arch.context, arch.d_head, q)
        facts = arch.n_heads * (r - 1) + 1
        return self.statement.make(
            self.setting(table, arch, dtype),
            facts=facts,
            params=layer_params(arch),
            conditions=(rank_of_contexts(arch), condition("Kruskal rank of queries", None, f"at most {q}")),
            formula=f"H(r - 1) + 1 with r = min(n, d_h, Q) = min({arch.context}, {arch.d_head}, {q}): {facts:,}",
            counts=COUNTS,
        )

    def check(self, table: VectorTable, arch: Architecture, options: Saturation) -> None:
        from rote.solvers.saturation import check_queries

        super().check(table, arch, options)
        check_queries(table.queries)

    def solve(self, job: Job[VectorTable, Saturation]) -> Model:
        from rote.solvers.saturation import saturation_layer

        job.progress("saturate", 0, job.arch.n_heads, None)
        return self.layer(
            job,
            saturation_layer,
            lambda report: {
                "r": report.r,
                "readout": report.readout,
                "rank_Z": report.rank,
                "condition_Z": report.cond,
                "condition_blocks": report.block_cond,
                "gain_median": report.c_median,
                "gain_max": report.c_max,
                "base_example": report.base,
                "served_by_head": [group.tolist() for group in report.groups],
                "saturated_share_of_others": [round(float(x), 9) for x in report.saturated_share],
            },
        )

    def examples(self, rng: np.random.Generator) -> list[tuple[VectorTable, Architecture]]:
        from rote.data import random_vectors

        examples: list[tuple[VectorTable, Architecture]] = []
        sharing: Literal["shared", "own"]
        for heads, d, d_head, n, sharing, classes in (
            (3, 6, 4, 4, "shared", None),
            (4, 8, 3, 5, "own", None),
            (2, 5, 5, 5, "shared", 3),
            (1, 4, 4, 4, "own", 2),
        ):
            count = heads * (min(n, d_head) - 1) + 1
            table = random_vectors(count, n, d, rng=rng, sharing=sharing, distribution="gaussian", n_classes=classes)
            examples.append((table, Architecture(heads, d, d_head, n, max(2, classes or 2))))
        return examples

    def near_misses(self, rng: np.random.Generator) -> list[tuple[VectorTable, Architecture, str]]:
        import numpy as np

        from rote.data import VectorTable, random_vectors

        shape = Architecture(3, 6, 4, 4, 2)
        full = random_vectors(10, 4, 6, rng=rng, sharing="own", distribution="gaussian")
        over = random_vectors(11, 4, 6, rng=rng, sharing="own", distribution="gaussian")
        twice, parallel, flat = np.array(full.queries), np.array(full.queries), np.array(full.contexts)
        twice[7] = twice[2]
        parallel[7] = -3.0 * parallel[2]
        flat[5, 3] = flat[5, 0]
        return [
            (over, shape, "11"),
            (VectorTable(full.contexts, twice, full.targets), shape, "8"),
            (VectorTable(full.contexts, parallel, full.targets), shape, "8"),
            (VectorTable(flat, full.queries, full.targets), shape, "6"),
        ]


construction = _Construction()
