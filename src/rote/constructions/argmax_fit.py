"""The argmax fit: random heads, and a convex fit of W_O by the facts' cross-entropy. See `rote.theorems.argmax_fit`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rote.config import Architecture, Dtype
from rote.constructions._base import Job, Needs, NoPlan, Options, Plan, fit_needs, option
from rote.constructions._data import ESTIMATE, TokenConstruction, counted, refuse_lost, told
from rote.data.verification import finite
from rote.errors import AssumptionError
from rote.theorems import Bound, Demand
from rote.theorems._capacity_estimates import argmax_capacity

if TYPE_CHECKING:
    import numpy as np

    from rote.data import FactTable
    from rote.models import Model

__all__ = ["ArgmaxFit", "construction"]

WIDTHS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
MOST_FEATURES = 3000
"""Features beyond which the fit takes minutes (one eigendecomposition of that size)."""
NARROW = 8
"""Narrower streams need weights too large for float32 in large tables."""
SMALL_TABLE = 300
STRUCTURED_WIDTH = 16
TINY_TABLE, CHEAP_TABLE = 1000, 3000
_ROOM_OF_CODES = ((2, 60), (3, 1000), (4, 2000), (6, 8000), (8, 20_000))
_WIDEST_CODE = 16
"""Widths that tell the codes of so many answers apart in float32, where a context is one token."""


@dataclass(frozen=True)
class ArgmaxFit(Options):
    """What the argmax fit may be told."""

    refine: bool = option(False, "Where a convex fit stops short, fit more weights (no guarantee, holds more).")
    rank1_qk: bool = option(False, "Query-key maps of rank 1 (fewer parameters).")


class _Construction(TokenConstruction[ArgmaxFit]):
    Options = ArgmaxFit
    title = "Attention only, convex fit of the argmax"
    exact = False
    estimate = "estimate for random tables"

    def asked(self, demand: Demand, options: ArgmaxFit) -> Demand:
        return replace(demand, convention="rank1_qk") if options.rank1_qk else demand

    def plan(self, demand: Demand) -> Plan | NoPlan:
        if demand.context < 2:
            return self._single(demand)
        best: Architecture | None = None
        small: Architecture | None = None
        coarse = demand.dtype in ("bfloat16", "float16")
        for d in [demand.d_model] if demand.d_model else WIDTHS:
            for d_head in [demand.d_head] if demand.d_head else sorted({d, max(1, d // 2), max(1, d // 4)}):
                arch = self._fewest_heads(demand, d, d_head)
                if arch is None:
                    continue
                narrow = demand.d_model is None and d < NARROW and (demand.n_facts > SMALL_TABLE or coarse)
                if arch.n_heads * d_head > MOST_FEATURES or narrow:
                    if small is None or arch.n_heads * d_head < small.n_heads * small.d_head:
                        small = arch
                elif best is None or demand.cost(arch) < demand.cost(best):
                    best = arch
        best = best or small
        if best is None:
            heads = "any number of heads" if demand.n_heads is None else f"heads, {demand.n_heads} in number,"
            return NoPlan(self.key, f"{heads} of the given widths do not hold so many facts")
        return self.as_plan(best, demand)

    def _single(self, demand: Demand) -> Plan | NoPlan:
        """A context of one token: its embedding is a code of the answer, which one head as wide as the stream turns to
        its place. Codes of more answers, or in coarser formats, take more room."""
        if demand.n_heads not in (None, 1) or demand.d_head not in (None, demand.d_model):
            return NoPlan(self.key, "a context of one token takes one head, as wide as the stream; leave heads open")
        answers, coarse = demand.n_targets or demand.vocab, demand.dtype in ("bfloat16", "float16")
        wide = next((d for d, most in _ROOM_OF_CODES if answers <= most // (64 if coarse else 1)), _WIDEST_CODE)
        return self.as_plan(demand.shape(1, *(demand.d_model or wide,) * 2), demand)

    @staticmethod
    def _fewest_heads(demand: Demand, d: int, d_head: int) -> Architecture | None:
        if d_head > d:
            return None

        def holds(heads: int) -> bool:
            arch = demand.shape(heads, d, d_head)
            return argmax_capacity(arch, demand.n_targets or demand.vocab, demand.dtype) >= demand.n_facts

        high = 1
        while not holds(high):
            high *= 2
            if high > 1 << 24:
                return None
        high = high // 2 + 1 + bisect_left(range(high // 2 + 1, high), True, key=holds)
        if demand.n_heads is not None:
            if high > demand.n_heads:
                return None
            high = demand.n_heads
        return demand.shape(high, d, d_head)

    def as_plan(self, arch: Architecture, demand: Demand, **said: Any) -> Plan:
        if arch.context == 1:
            return super().as_plan(arch, demand, facts=demand.n_facts, note="every token of a context has a code")
        facts = argmax_capacity(arch, demand.n_targets or demand.vocab, demand.dtype)
        return super().as_plan(arch, demand, facts=facts, note=ESTIMATE)

    def variants(self, demand: Demand, plan: Plan) -> Iterator[Plan]:
        """The planned shape and larger ones; for a table with structure smaller ones first."""
        if demand.context < 2:
            first = 2 if demand.n_facts <= TINY_TABLE else plan.architecture.d_model
            every = [*(d for d, _ in _ROOM_OF_CODES if d >= first), _WIDEST_CODE]
            widths = [demand.d_model] if demand.d_model else every
            yield from (self.as_plan(demand.shape(1, d, d), demand) for d in widths)
            return
        yield from sorted([*self._tiny(demand, plan), *self._structured(demand)], key=lambda one: one.params)
        arch = plan.architecture
        factors = (1.0,) if demand.n_heads is not None else (1.0, 1.3, 1.7, 2.5)
        for heads in dict.fromkeys(max(1, round(arch.n_heads * factor)) for factor in factors):
            yield self.as_plan(arch.replace(n_heads=heads), demand)

    def _tiny(self, demand: Demand, plan: Plan) -> Iterator[Plan]:
        """Small tables: far smaller shapes than a random table would need cost next to nothing to try."""
        if demand.n_facts > CHEAP_TABLE or demand.n_heads is not None or demand.d_head is not None:
            return
        tiny = demand.n_facts <= TINY_TABLE
        widths = [demand.d_model] if demand.d_model else [2, 4, 8, 12] if tiny else [8, 12]
        counts = {d: (*((1, 2, 4) if tiny else ()), 8, *((16, 32) if d > 4 else ())) for d in widths if d > 1}
        shapes = [demand.shape(heads, d, d) for d, each in counts.items() for heads in each]
        for arch in sorted(shapes, key=lambda shape: shape.params(demand.convention)):
            if arch.params(demand.convention) < plan.params:
                yield self.as_plan(arch, demand)

    def _structured(self, demand: Demand) -> Iterator[Plan]:
        """For tables far from random: many heads of width 1, a share of what a random table would need."""
        if not demand.structure_factors or demand.n_heads is not None or demand.d_head not in (None, 1):
            return
        base = self._fewest_heads(demand, demand.d_model or STRUCTURED_WIDTH, 1)
        if base is None:
            return
        for factor in demand.structure_factors:
            heads = max(1, round(base.n_heads * factor))
            if heads <= MOST_FEATURES:
                yield self.as_plan(base.replace(n_heads=heads), demand)

    def limit(self, table: FactTable, arch: Architecture, dtype: Dtype) -> Bound:
        most = arch.vocab if arch.context == 1 else argmax_capacity(arch, table.n_targets, dtype)
        return self.estimated(table, arch, dtype, most)

    def needs(self, demand: Demand, plan: Plan) -> Needs:
        arch = plan.architecture
        return fit_needs(demand, arch.n_heads * arch.d_head, arch.d_model, arch.n_heads * arch.d_head)

    def check(self, table: FactTable, arch: Architecture, options: ArgmaxFit) -> None:
        super().check(table, arch, options)
        if arch.context == 1 and arch.n_heads * arch.d_head < arch.d_model:
            raise AssumptionError(
                f"a context of one token is turned to its answer as a whole, so heads x d_head must be at least "
                f"{arch.d_model}, got {arch.n_heads} x {arch.d_head}."
            )
        if arch.d_model == 1:
            raise AssumptionError(f"{table.n_targets} targets cannot all win on a line; use d_model of 2 or more.")

    def solve(self, job: Job[FactTable, ArgmaxFit]) -> Model:
        import torch

        from rote.solvers.argmax import fit_attention

        job.progress("features", 0, 0, None)
        table, arch, options = job.table, job.arch, job.options
        fit = fit_attention(
            table.contexts.copy(),
            table.targets.copy(),
            arch.vocab,
            arch.n_heads,
            arch.d_model,
            arch.d_head,
            job.rng,
            rank1=options.rank1_qk,
            joint=options.refine,
            dtype=getattr(torch, job.dtype),
            partial=job.partial,
            progress=told(job, "fit W_O"),
            advance=counted(job),
        )
        refuse_lost(job, fit.errors)
        spectrum = fit.readout.spectrum
        report = {
            "iterations": fit.iterations,
            "refined": options.refine,
            "rank_features": spectrum.rank,
            "n_features": spectrum.n_features,
            "condition": finite(spectrum.condition),
            "loss": finite(fit.readout.loss),
            "fragile": fit.fragile,
        }
        return self.transformer(job, fit.weights, fit.margin, report)

    def examples(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture]]:
        from rote.data import random_facts

        shapes = [Architecture(*sizes) for sizes in ((12, 8, 8, 4, 32), (16, 4, 4, 6, 20), (9, 16, 4, 3, 64))]
        return [
            (random_facts(argmax_capacity(arch, arch.vocab, "float64"), arch.context, arch.vocab, rng=rng), arch)
            for arch in shapes
        ]

    def near_misses(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture, str]]:
        from rote.data import random_facts

        return [
            (random_facts(8, 1, 9, rng=rng), Architecture(1, 4, 2, 1, 9), "one token"),
            (random_facts(30, 3, 9, rng=rng), Architecture(4, 1, 1, 3, 9), "line"),
        ]


construction = _Construction()
