"""The MLP fit: heads that mix, and a convex fit of a gated MLP's down projection. See `rote.theorems.mlp_fit`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rote.config import Architecture, Dtype, Shape
from rote.constructions._base import Job, Needs, NoPlan, Options, Plan, fit_needs, option
from rote.constructions._data import ESTIMATE, TokenConstruction, counted, refuse_lost, told
from rote.data.verification import finite
from rote.errors import ShapeError
from rote.theorems import Bound, Demand
from rote.theorems._capacity_estimates import mlp_capacity
from rote.theorems.mlp_fit import NARROWEST

if TYPE_CHECKING:
    import numpy as np

    from rote.data import FactTable
    from rote.models import Model

__all__ = ["MlpFit", "construction"]

WIDTHS = (NARROWEST, 12, 16, 24, 32, 48, 64, 96, 128)
MOST_FEATURES = 3000
MIXING_HEADS = 4


@dataclass(frozen=True)
class MlpFit(Options):
    """What the MLP fit may be told."""

    refine: bool = option(False, "Where a convex fit stops short, fit more weights (no guarantee, holds more).")


class _Construction(TokenConstruction[MlpFit]):
    Options = MlpFit
    title = "Attention to mix, a gated MLP to store"
    shaped_by = ("n_heads", "d_model", "d_head", "d_mlp")
    exact = False
    estimate = "estimate for random tables"

    def plan(self, demand: Demand) -> Plan | NoPlan:
        targets = demand.n_targets or demand.vocab
        best: Architecture | None = None
        for d in [demand.d_model] if demand.d_model else WIDTHS:
            if d < NARROWEST:
                return NoPlan(self.key, f"d_model = {d} is narrower than was measured ({NARROWEST})")
            width = max(8, math.ceil((demand.n_facts + 1) * math.log2(max(2, targets)) / (1.1 * d)))
            heads = demand.n_heads or min(MIXING_HEADS, max(1, demand.context))
            if demand.d_head is not None and heads * demand.d_head < d:
                if demand.n_heads is not None:
                    continue
                heads = -(-d // demand.d_head)
            d_head = demand.d_head or max(1, -(-d // heads))
            arch = demand.shape(heads, d, d_head, d_mlp=width, gated=True)
            fits = width <= MOST_FEATURES
            if best is None or (fits, -arch.params()) > (best.d_mlp <= MOST_FEATURES, -best.params()):
                best = arch
        if best is None:
            return NoPlan(self.key, "no width fits")
        return self.as_plan(best, demand)

    def as_plan(self, arch: Architecture, demand: Demand, **said: Any) -> Plan:
        facts = mlp_capacity(arch.d_model, arch.d_mlp, demand.n_targets or demand.vocab)
        return super().as_plan(arch, demand, facts=facts, note=ESTIMATE)

    def variants(self, demand: Demand, plan: Plan) -> Iterator[Plan]:
        arch = plan.architecture
        for factor in (*demand.structure_factors, 1.0, 1.3, 1.8, 2.5):
            yield self.as_plan(arch.replace(d_mlp=max(8, round(arch.d_mlp * factor))), demand)

    def fixed(self, shape: Shape, demand: Demand) -> Architecture:
        attention = super().fixed(replace(shape, d_mlp=None), demand)
        return attention if shape.d_mlp is None else attention.replace(d_mlp=shape.d_mlp, gated=True)

    def needs(self, demand: Demand, plan: Plan) -> Needs:
        arch = plan.architecture
        return fit_needs(demand, arch.d_mlp, arch.d_model, arch.n_heads * arch.d_head)

    def limit(self, table: FactTable, arch: Architecture, dtype: Dtype) -> Bound:
        return self.estimated(table, arch, dtype, mlp_capacity(arch.d_model, arch.d_mlp, table.n_targets))

    def check(self, table: FactTable, arch: Architecture, options: MlpFit) -> None:
        super().check(table, arch, options)
        if arch.n_heads * arch.d_head < arch.d_model:
            raise ShapeError(
                f"{self.key} mixes contexts into {arch.d_model} directions, so heads x d_head must be at least that, "
                f"got {arch.n_heads} x {arch.d_head}."
            )
        if arch.d_mlp < 1 or not arch.gated:
            raise ShapeError(f"{self.key} stores facts in a gated MLP; give its width, d_mlp.")

    def solve(self, job: Job[FactTable, MlpFit]) -> Model:
        from rote.solvers.gated_mlp import fit_attention_mlp

        job.progress("features", 0, 0, None)
        table, arch, options = job.table, job.arch, job.options
        fit = fit_attention_mlp(
            table.contexts.copy(),
            table.targets.copy(),
            arch.vocab,
            arch.n_heads,
            arch.d_model,
            arch.d_head,
            arch.d_mlp,
            job.rng,
            joint=options.refine,
            max_iterations=400,
            progress=told(job, "fit W_down"),
            advance=counted(job),
        )
        refuse_lost(job, fit.errors)
        report = {
            "iterations": fit.iterations,
            "refined": options.refine,
            "fragile": fit.fragile,
            "margin": finite(fit.margin),
        }
        return self.transformer(job, fit.weights, fit.margin, report, activation="silu")

    def examples(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture]]:
        from rote.data import random_facts

        examples = []
        for d, width, s, n in ((16, 32, 3, 40), (32, 24, 2, 64), (8, 64, 4, 20)):
            arch = Architecture(2, d, d // 2, s, n, d_mlp=width, gated=True)
            examples.append((random_facts(mlp_capacity(d, width, n), s, n, rng=rng), arch))
        return examples

    def near_misses(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture, str]]:
        from rote.data import random_facts

        return [(random_facts(20, 3, 9, rng=rng), Architecture(4, 8, 8, 3, 9), "d_mlp")]


construction = _Construction()
