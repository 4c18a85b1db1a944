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

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rote.config import Architecture
from rote.errors import ShapeError
from rote.theorems._base import Bound, Citation, Demand, NoPlan, Plan, Setting, condition, stored_bytes
from rote.theorems._capacity_estimates import mlp_capacity
from rote.theorems._tokens import TokenBuilder

if TYPE_CHECKING:
    import numpy as np

    from rote.data import FactTable
    from rote.solvers.record import Construction, Options, Progress

__all__ = ["theorem"]

WIDTHS = (8, 12, 16, 24, 32, 48, 64, 96, 128)
MOST_FEATURES = 3000
MIXING_HEADS = 4


class _Theorem(TokenBuilder):
    title = "Attention to mix, a gated MLP to store"
    kind = "empirical"
    citation = Citation(
        authors="rote",
        title="rote: how much a transformer can memorise, and the weights that do it",
        year=2026,
        where="mlp_fit",
        venue="this software",
    )
    statement = "A convex fit of a gated MLP's down projection holds about 1.2 bits a weight of it, for random tables."
    promises = "recall of random tables, measured; verified fact by fact when built"
    exact = False

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        facts = mlp_capacity(arch.d_model, arch.d_mlp, arch.vocab)
        return self.make(
            setting,
            facts=facts or None,
            params=arch.params("full"),
            conditions=(
                condition("random targets", None, "structured tables hold more or less than random ones"),
                condition("a gated MLP", arch.d_mlp > 0 and arch.gated, f"d_mlp = {arch.d_mlp}, gated = {arch.gated}"),
                condition(
                    "heads fill the stream",
                    arch.n_heads * arch.d_head >= arch.d_model,
                    f"H d_h = {arch.n_heads * arch.d_head}, needs d_model = {arch.d_model}",
                ),
                condition("one layer", arch.n_layers == 1, f"n_layers = {arch.n_layers}"),
                condition("wide enough", arch.d_model >= WIDTHS[0], f"d_model = {arch.d_model}, measured from 8"),
            ),
            formula=f"about 1.1 d m/log2 C = 1.1 * {arch.d_model} * {arch.d_mlp}/log2 {arch.vocab:,} = {facts:,}",
        )

    def plan(self, demand: Demand) -> Plan | NoPlan:
        targets = demand.n_targets or demand.vocab
        best: Architecture | None = None
        for d in [demand.d_model] if demand.d_model else WIDTHS:
            if d < WIDTHS[0]:
                return NoPlan(self.key, f"d_model = {d} is narrower than was measured ({WIDTHS[0]})")
            width = max(8, math.ceil((demand.n_facts + 1) * math.log2(max(2, targets)) / (1.1 * d)))
            heads = demand.n_heads or min(MIXING_HEADS, max(1, demand.context))
            if demand.d_head is not None and heads * demand.d_head < d:
                if demand.n_heads is not None:
                    continue
                heads = -(-d // demand.d_head)
            arch = Architecture(
                heads,
                d,
                demand.d_head or max(1, -(-d // heads)),
                demand.context,
                demand.vocab,
                d_mlp=width,
                gated=True,
            )
            fits = width <= MOST_FEATURES
            if best is None or (fits, -arch.params()) > (best.d_mlp <= MOST_FEATURES, -best.params()):
                best = arch
        if best is None:
            return NoPlan(self.key, "no width fits")
        return self._as_plan(best, demand)

    def _as_plan(self, arch: Architecture, demand: Demand) -> Plan:
        return Plan(
            construction=self.key,
            architecture=arch,
            params=arch.params(),
            bytes=stored_bytes(arch.params(), demand.dtype),
            facts=mlp_capacity(arch.d_model, arch.d_mlp, demand.n_targets or demand.vocab),
            note="for random tables, on the safe side; structured ones may need less",
            dtype=demand.dtype,
        )

    def shapes(self, demand: Demand) -> Iterator[Plan]:
        answer = self.plan(demand)
        if not isinstance(answer, Plan):
            return
        arch = answer.architecture
        for factor in (*demand.structure_factors, 1.0, 1.3, 1.8, 2.5):
            yield self._as_plan(arch.replace(d_mlp=max(8, round(arch.d_mlp * factor))), demand)

    def limit(self, data: FactTable, arch: Architecture, dtype: str) -> Bound:
        facts = mlp_capacity(arch.d_model, arch.d_mlp, data.n_targets)
        return self.make(
            self.setting(data, arch, dtype),
            facts=facts,
            params=arch.params("full"),
            conditions=(condition("random targets", None, f"{data.n_targets} distinct targets"),),
            formula=f"estimate for random tables with {data.n_targets} targets: {facts:,}",
        )

    def admit(self, data: FactTable, arch: Architecture) -> None:
        self.check_shape(data, arch)
        if arch.n_heads * arch.d_head < arch.d_model:
            raise ShapeError(
                f"{self.key} mixes contexts into {arch.d_model} directions, so heads x d_head must be at least that, "
                f"got {arch.n_heads} x {arch.d_head}."
            )
        if arch.d_mlp < 1 or not arch.gated:
            raise ShapeError(f"{self.key} stores facts in a gated MLP; give it a width with --d-mlp.")

    def build(
        self, data: FactTable, arch: Architecture, *, rng: np.random.Generator, options: Options, progress: Progress
    ) -> Construction:
        import torch

        from rote.solvers.gated_mlp import fit_attention_mlp
        from rote.solvers.record import Construction, finite, stretch

        def report(iteration: int, wrong: int, rows: int) -> None:
            progress("fit W_down", iteration, 400, rows - wrong)

        progress("features", 0, 1, None)
        fit = fit_attention_mlp(
            data.contexts.copy(),
            data.targets.copy(),
            arch.vocab,
            arch.n_heads,
            arch.d_model,
            arch.d_head,
            arch.d_mlp,
            rng,
            joint=options.refine,
            max_iterations=400,
            progress=report,
        )
        tensors = {name: torch.as_tensor(value).contiguous() for name, value in fit.weights.items()}
        tensors["W_U"] *= stretch(fit.margin, arch.vocab)
        return Construction(
            "transformer",
            arch,
            tensors,
            {
                "iterations": fit.iterations,
                "refined": options.refine,
                "fragile": fit.fragile,
                "margin": finite(fit.margin),
            },
            activation="silu",
        )

    def examples(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture]]:
        from rote.data import random_facts

        found = []
        for d, width, s, n in ((16, 32, 3, 40), (32, 24, 2, 64), (8, 64, 4, 20)):
            arch = Architecture(2, d, d // 2, s, n, d_mlp=width, gated=True)
            found.append((random_facts(mlp_capacity(d, width, n), s, n, rng=rng), arch))
        return found

    def near_misses(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture, str]]:
        from rote.data import random_facts

        return [(random_facts(20, 3, 9, rng=rng), Architecture(4, 8, 8, 3, 9), "--d-mlp")]


theorem = _Theorem()
