"""Random attention features with a linear readout. See `rote.theorems.mahdavi_random_features`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rote.config import Architecture, Dtype
from rote.constructions._base import Job, Needs, NoPlan, Options, Plan, solve_needs
from rote.constructions._data import VectorConstruction
from rote.theorems import Bound, Demand, condition
from rote.theorems.mahdavi2024_thm1 import COUNTS, layer_params
from rote.theorems.mahdavi_random_features import feature_limit

if TYPE_CHECKING:
    import numpy as np

    from rote.data import VectorTable
    from rote.models import Model

__all__ = ["RandomFeatures", "construction"]


@dataclass(frozen=True)
class RandomFeatures(Options):
    """There is nothing to be told."""


class _Construction(VectorConstruction[RandomFeatures]):
    Options = RandomFeatures
    title = "One attention layer, random features"

    def plan(self, demand: Demand) -> Plan | NoPlan:
        return self._plan(demand, demand.d_head or 1)

    def _plan(self, demand: Demand, d_head: int) -> Plan | NoPlan:
        d = demand.d_model or max(demand.context, 2)
        per_head = demand.context - 1 if demand.shared_context else d
        if demand.shared_context and demand.context == 1 and demand.n_facts > 1:
            return NoPlan(self.key, "one shared vector is the same for every query; it needs context >= 2")
        facts = demand.n_facts
        heads = -(-(facts - 1) // max(1, per_head)) if demand.shared_context else -(-facts // d)
        heads = max(1, heads, -(-facts // d))
        if demand.n_heads is not None:
            if heads > demand.n_heads:
                most = feature_limit(demand.n_heads, demand.context, d, demand.shared_context)
                return NoPlan(self.key, f"{demand.n_heads} heads hold at most {most:,} facts")
            heads = demand.n_heads
        arch = Architecture(heads, d, d_head, demand.context, demand.vocab)
        return self.as_plan(
            arch,
            demand,
            params=layer_params(arch),
            facts=feature_limit(heads, demand.context, d, demand.shared_context),
            note="for vectors that vary enough, with real labels; no embedding counted",
            counts=COUNTS,
        )

    def variants(self, demand: Demand, plan: Plan) -> Iterator[Plan]:
        """Narrow heads are badly conditioned, so wider ones follow, then a tenth more heads."""
        d = demand.d_model or max(demand.context, 2)
        widths = [demand.d_head] if demand.d_head else sorted({min(w, d) for w in (1, 2, 4, 16)})
        for width in widths:
            answer = self._plan(demand, width)
            if isinstance(answer, Plan):
                yield answer
                last = answer
        if demand.n_heads is None and widths:
            arch = last.architecture
            more = arch.replace(n_heads=arch.n_heads + max(1, arch.n_heads // 10))
            yield self.as_plan(more, demand, params=layer_params(more), facts=last.facts)

    def needs(self, demand: Demand, plan: Plan) -> Needs:
        arch = plan.architecture
        return solve_needs(demand.n_facts, arch.n_heads * arch.d_model)

    def limit(self, table: VectorTable, arch: Architecture, dtype: Dtype) -> Bound:
        from rote.solvers.random_features import feature_rank_limit

        facts = feature_rank_limit(table.contexts, table.queries, arch.n_heads)
        return self.statement.make(
            self.setting(table, arch, dtype),
            facts=facts,
            params=layer_params(arch),
            conditions=(condition("rank of these contexts", True, "computed from the data"),),
            formula=f"rank limit of these data with {arch.n_heads} heads: {facts:,}",
            counts=COUNTS,
        )

    def check(self, table: VectorTable, arch: Architecture, options: RandomFeatures) -> None:
        from rote.solvers.random_features import distinct_examples

        super().check(table, arch, options)
        distinct_examples(table.contexts, table.queries, table.targets.reshape(table.n_facts, -1).astype(float))

    def solve(self, job: Job[VectorTable, RandomFeatures]) -> Model:
        from rote.solvers.random_features import random_feature_layer

        job.progress("random features", 0, 0, None)
        return self.layer(
            job,
            random_feature_layer,
            lambda report: {"scale": report.scale, "rank_Z": report.rank, "condition_Z": report.cond},
        )

    def examples(self, rng: np.random.Generator) -> list[tuple[VectorTable, Architecture]]:
        from rote.data import random_vectors

        examples: list[tuple[VectorTable, Architecture]] = []
        sharing: Literal["shared", "own"]
        for heads, d, d_head, n, sharing in ((4, 6, 4, 5, "shared"), (3, 6, 2, 4, "own"), (2, 4, 4, 9, "own")):
            count = feature_limit(heads, n, d, sharing == "shared")
            table = random_vectors(count, n, d, rng=rng, sharing=sharing, distribution="gaussian")
            examples.append((table, Architecture(heads, d, d_head, n, 2)))
        return examples

    def near_misses(self, rng: np.random.Generator) -> list[tuple[VectorTable, Architecture, str]]:
        import numpy as np

        from rote.data import VectorTable, random_vectors

        over = random_vectors(19, 4, 6, rng=rng, sharing="own", distribution="gaussian")
        good = random_vectors(10, 4, 6, rng=rng, sharing="shared", distribution="gaussian")
        clash = np.array(good.queries)
        clash[6] = clash[1]
        return [
            (over, Architecture(3, 6, 6, 4, 2), "19"),
            (VectorTable(good.contexts, clash, good.targets), Architecture(4, 6, 6, 4, 2), "7"),
        ]


construction = _Construction()
