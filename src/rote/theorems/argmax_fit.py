"""The argmax fit (rote): several times more facts per parameter than exact association.

Statement: draw W_E, W_pos, W_Q, W_K, W_V at random, leave the skip connection as it is, and choose W_O to minimise the
           cross-entropy of the facts, a convex problem. The rows of W_U are chosen before: Fisher's discriminant
           directions of the features. For random tables the minimum recalls every fact as long as T log2 C is below
           about 1.4 k (P + 0.7 C), with P = H min(d_h, N + S - 2) features and k = min(d, C - 1, P/3): 1.4 bits for
           each weight of W_O, half as much for each weight of W_U. Exact association needs T <= H d_h + d for
           arbitrary target vectors; recall only asks for the right argmax.
Notation:  H = n_heads, d = d_model, d_h = d_head, S = context, N = vocab, C = distinct targets, T = n_facts.
Source:    this project, measured; the features are those of arXiv 2411.10115 v2.
Differs:   ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from rote.config import Architecture
from rote.errors import AssumptionError
from rote.theorems._base import Bound, Demand, NoPlan, Plan, Setting, condition, stored_bytes
from rote.theorems._capacity_estimates import attention_capacity
from rote.theorems._citations import dana2025
from rote.theorems._tokens import TokenBuilder

if TYPE_CHECKING:
    import numpy as np

    from rote.data import FactTable
    from rote.solvers.record import Construction, Options, Progress

__all__ = ["theorem"]

WIDTHS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
MOST_FEATURES = 3000
"""Features beyond which the fit takes minutes (one eigendecomposition of that size)."""
NARROW = 8
"""Narrower streams need weights too large for float32 in large tables."""
SMALL_TABLE = 300
STRUCTURED_WIDTH = 16
TINY_TABLE = 1000
COARSE_ROOM = 2
"""Room for the rounding of 16-bit formats: a plan is made for so many times the facts."""


def _capacity(arch: Architecture, n_targets: int, dtype: str) -> int:
    room = COARSE_ROOM if dtype in ("bfloat16", "float16") else 1
    return attention_capacity(arch.vocab, n_targets, arch.context, arch.d_model, arch.d_head, arch.n_heads) // room


class _Theorem(TokenBuilder):
    title = "Attention only, convex fit of the argmax"
    kind = "empirical"
    citation = dana2025("features of Theorem 1; fit by rote")
    statement = "A convex fit of W_O on random heads holds about 1.4 bits a weight of it, for random tables."
    promises = "recall of random tables, measured; verified fact by fact when built"
    exact = False

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        facts = _capacity(arch, arch.vocab, setting.dtype)
        return self.make(
            setting,
            facts=facts or None,
            params=arch.params("full"),
            conditions=(
                condition("random targets", None, "structured tables hold more or less than random ones"),
                condition("width of heads", arch.d_head <= arch.d_model, f"{arch.d_head} of {arch.d_model}"),
                condition("context of two or more", arch.context >= 2, f"context = {arch.context}"),
                condition("room for targets", arch.d_model > 1, "on a line only two targets can win"),
            ),
            formula=f"about 1.1 k (P + 0.7 C)/log2 C, P = {arch.n_heads} min({arch.d_head}, N + S - 2): {facts:,}",
        )

    def plan(self, demand: Demand) -> Plan | NoPlan:
        if demand.context < 2:
            return NoPlan(
                self.key, "a context of one token gives the heads nothing to attend to; it needs context >= 2"
            )
        targets = demand.n_targets or demand.vocab
        best: Architecture | None = None
        small: Architecture | None = None
        coarse = demand.dtype in ("bfloat16", "float16")
        for d in [demand.d_model] if demand.d_model else WIDTHS:
            for d_head in [demand.d_head] if demand.d_head else sorted({d, max(1, d // 2), max(1, d // 4)}):
                arch = self._fewest_heads(demand, targets, d, d_head)
                if arch is None:
                    continue
                narrow = demand.d_model is None and d < NARROW and (demand.n_facts > SMALL_TABLE or coarse)
                if arch.n_heads * d_head > MOST_FEATURES or narrow:
                    if small is None or arch.n_heads * d_head < small.n_heads * small.d_head:
                        small = arch
                elif best is None or (arch.params(), arch.n_heads) < (best.params(), best.n_heads):
                    best = arch
        best = best or small
        if best is None:
            return NoPlan(self.key, f"{demand.n_heads or 'no number of'} heads of the given widths hold so many facts")
        return self._as_plan(best, demand)

    @staticmethod
    def _fewest_heads(demand: Demand, targets: int, d: int, d_head: int) -> Architecture | None:
        if d_head > d:
            return None

        def holds(heads: int) -> bool:
            arch = Architecture(heads, d, d_head, demand.context, demand.vocab)
            return _capacity(arch, targets, demand.dtype) >= demand.n_facts

        high = 1
        while not holds(high):
            high *= 2
            if high > 1 << 24:
                return None
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        if demand.n_heads is not None:
            if high > demand.n_heads:
                return None
            high = demand.n_heads
        return Architecture(high, d, d_head, demand.context, demand.vocab)

    def _as_plan(self, arch: Architecture, demand: Demand) -> Plan:
        targets = demand.n_targets or demand.vocab
        return Plan(
            construction=self.key,
            architecture=arch,
            params=arch.params(),
            bytes=stored_bytes(arch.params(), demand.dtype),
            facts=_capacity(arch, targets, demand.dtype),
            note="for random tables, on the safe side; structured ones may need less",
            dtype=demand.dtype,
        )

    def shapes(self, demand: Demand) -> Iterator[Plan]:
        """The planned shape and larger ones; for a table with structure smaller ones first."""
        yield from self._tiny(demand)
        yield from self._structured(demand)
        answer = self.plan(demand)
        if not isinstance(answer, Plan):
            if demand.n_heads is not None:
                # The estimate says no, but real tables have structure: try what was asked for, at generous widths.
                wide = self.plan(replace(demand, n_heads=None))
                if isinstance(wide, Plan):
                    yield self._as_plan(wide.architecture.replace(n_heads=demand.n_heads), demand)
            return
        arch = answer.architecture
        factors = (1.0,) if demand.n_heads is not None else (1.0, 1.3, 1.7, 2.5)
        seen = set()
        for factor in factors:
            heads = max(1, round(arch.n_heads * factor))
            if heads not in seen:
                seen.add(heads)
                yield self._as_plan(arch.replace(n_heads=heads), demand)

    def _tiny(self, demand: Demand) -> Iterator[Plan]:
        """Small tables: far smaller shapes than a random table would need cost next to nothing to try."""
        if demand.n_facts > TINY_TABLE or demand.n_heads is not None or demand.d_head is not None:
            return
        planned = self.plan(demand)
        widths = [demand.d_model] if demand.d_model else [2, 4, 8, 12]
        shapes = [
            Architecture(heads, d, d, demand.context, demand.vocab) for d in widths if d > 1 for heads in (1, 2, 4, 8)
        ]
        for arch in sorted(shapes, key=lambda shape: shape.params()):
            if not isinstance(planned, Plan) or arch.params() < planned.params:
                yield self._as_plan(arch, demand)

    def _structured(self, demand: Demand) -> Iterator[Plan]:
        """For tables far from random: many heads of width 1, a share of what a random table would need."""
        if not demand.structure_factors or demand.n_heads is not None or demand.d_head not in (None, 1):
            return
        d = demand.d_model or STRUCTURED_WIDTH
        base = self._fewest_heads(demand, demand.n_targets or demand.vocab, d, 1)
        if base is None:
            return
        for factor in demand.structure_factors:
            heads = max(1, round(base.n_heads * factor))
            if heads <= MOST_FEATURES:
                yield self._as_plan(base.replace(n_heads=heads), demand)

    def limit(self, data: FactTable, arch: Architecture, dtype: str) -> Bound:
        facts = _capacity(arch, data.n_targets, dtype)
        return self.make(
            self.setting(data, arch, dtype),
            facts=facts,
            params=arch.params("full"),
            conditions=(condition("random targets", None, f"{data.n_targets} distinct targets"),),
            formula=f"estimate for random tables with {data.n_targets} targets: {facts:,}",
        )

    def admit(self, data: FactTable, arch: Architecture) -> None:
        self.check_shape(data, arch)
        if arch.context < 2:
            raise AssumptionError(
                f"{self.key} mixes the tokens of a context, and here a context is one token; use mlp_fit, or --tokens "
                "chars or words to cut it up."
            )
        if arch.d_model == 1:
            raise AssumptionError(f"{data.n_targets} targets cannot all win on a line; use d_model of 2 or more.")

    def build(
        self, data: FactTable, arch: Architecture, *, rng: np.random.Generator, options: Options, progress: Progress
    ) -> Construction:
        import torch

        from rote.solvers.argmax import fit_attention
        from rote.solvers.record import Construction, finite, stretch

        def report(iteration: int, wrong: int, rows: int) -> None:
            progress("fit W_O", iteration, 400, rows - wrong)

        progress("features", 0, 1, None)
        fit = fit_attention(
            data.contexts.copy(),
            data.targets.copy(),
            arch.vocab,
            arch.n_heads,
            arch.d_model,
            arch.d_head,
            rng,
            rank1=options.rank1_qk,
            joint=options.refine,
            dtype=getattr(torch, options.dtype),
            progress=report,
        )
        spectrum = fit.readout.spectrum
        tensors = {name: torch.as_tensor(value).contiguous() for name, value in fit.weights.items()}
        tensors["W_U"] *= stretch(fit.margin, arch.vocab)
        return Construction(
            "transformer",
            arch,
            tensors,
            {
                "iterations": fit.iterations,
                "refined": options.refine,
                "rank_features": spectrum.rank,
                "n_features": spectrum.n_features,
                "condition": finite(spectrum.condition),
                "loss": finite(fit.readout.loss),
                "fragile": fit.fragile,
            },
        )

    def examples(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture]]:
        from rote.data import random_facts

        found = []
        for heads, d, d_head, s, n in ((12, 8, 8, 4, 32), (16, 4, 4, 6, 20), (9, 16, 4, 3, 64)):
            count = attention_capacity(n, n, s, d, d_head, heads)
            found.append((random_facts(count, s, n, rng=rng), Architecture(heads, d, d_head, s, n)))
        return found

    def near_misses(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture, str]]:
        from rote.data import random_facts

        return [
            (random_facts(8, 1, 9, rng=rng), Architecture(4, 4, 4, 1, 9), "one token"),
            (random_facts(30, 3, 9, rng=rng), Architecture(4, 1, 1, 3, 9), "line"),
        ]


theorem = _Theorem()
