"""Shapes for a divergence: the smallest width, and then the fewest heads, that reach it.

Heads are counted by building: the layer of the planned shape is made and its divergence measured, so the number is not
an estimate. A build of that shape with the same seed makes the same layer, or a better one of its other draws.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.config import Architecture, Convention, Dtype, Shape
from rote.constructions._base import Plan, stored_bytes
from rote.constructions._distribution_shapes import LARGEST_SOLVE, capacity_of, epsilon_of, head_width
from rote.errors import AssumptionError, CapacityError

if TYPE_CHECKING:
    from rote.constructions._distributions import DistributionConstruction
    from rote.data import DistributionTable

__all__ = ["shapes_that_reach"]


def shapes_that_reach(
    construction: DistributionConstruction,
    table: DistributionTable,
    kl: float,
    shape: Shape,
    dtype: Dtype,
    counts: Convention = "full",
    *,
    starts: int | None = None,
) -> Iterator[Plan]:
    """Shapes that reach `kl` nats: the smallest d_model with the fewest heads first, then wider ones with fewer heads.

    The table has full support. A refusal where a fixed d_model or number of heads makes it impossible.
    """
    search = _Search(construction, table, kl, shape.n_heads, shape.d_head, starts)
    reached = False
    for d, heads in _reaching(search, table, kl, shape.d_model):
        reached = True
        yield search.plan(d, heads, dtype, counts)
    if not reached:
        raise CapacityError(
            f"no shape reaches {kl:g} nats under these conditions; allow more heads, width or parameters."
        )


def _reaching(search: _Search, table: DistributionTable, kl: float, d_model: int | None) -> Iterator[tuple[int, int]]:
    if d_model is not None:
        heads = search.heads(d_model)
        if heads is not None:
            yield d_model, heads
        return
    most = min(table.vocab - 1, table.n_facts)
    high = 1 + bisect_left(range(1, most), True, key=lambda d: search.encoder(d, scouting=True).kl <= kl)
    small = table.n_facts * table.vocab * high <= 3_000_000
    widths = [high, *(sorted({min(most, math.ceil(high * f)) for f in (1.25, 1.6)} - {high}) if small else ())]
    reached = 0
    for d in widths:
        heads = search.heads(d)
        if heads is not None:
            reached += 1
            yield d, heads
    # With a fixed number of heads the narrowest encoder may not be reachable, and a wider one may.
    d = widths[-1]
    while not reached and d < most:
        d = min(most, 2 * d)
        heads = search.heads(d)
        if heads is not None:
            reached += 1
            yield d, heads


class _Search:
    def __init__(
        self,
        construction: DistributionConstruction,
        table: DistributionTable,
        kl: float,
        n_heads: int | None,
        d_head: int | None,
        starts: int | None,
    ) -> None:
        self._construction = construction
        self._table, self._kl, self._n_heads, self._d_head = table, kl, n_heads, d_head
        self._starts = starts
        self._bounds: dict[int, Any] = {}
        self._reached_at: dict[tuple[int, int], tuple[float, int]] = {}

    def encoder(self, d: int, *, scouting: bool = False) -> Any:
        """The best encoder of a width; with two starts only while the width is being looked for."""
        from rote.solvers.encoder import encoder_bound

        if scouting and d not in self._bounds:
            return encoder_bound(self._table, d, rng=np.random.default_rng(0), starts=2)
        if d not in self._bounds:
            for_bound = np.random.default_rng(0).spawn(3)[0]
            self._bounds[d] = encoder_bound(self._table, d, rng=for_bound, starts=self._starts)
        return self._bounds[d]

    def _reached(self, d: int, heads: int) -> float:
        """The divergence of a layer of this shape."""
        from rote.solvers.distribution import attend

        if (d, heads) not in self._reached_at:
            arch = self._shape(d, heads)
            t_eps = capacity_of(self._table, arch)
            if t_eps > LARGEST_SOLVE and t_eps == self._table.t_eps(0.0):
                raise CapacityError(
                    f"{t_eps:,} contexts are more than the solve takes ({LARGEST_SOLVE:,}); allow more divergence."
                )
            for_layer = np.random.default_rng(0).spawn(3)[1]
            try:
                layer = attend(
                    self._table, self.encoder(d), n_heads=heads, d_head=arch.d_head, n_contexts=t_eps,
                    method=self._construction.method, rng=for_layer, tries=1,
                )  # fmt: skip
            except AssumptionError:
                # This draw does not tell the contexts apart; another shape may.
                self._reached_at[d, heads] = (math.inf, t_eps)
            else:
                self._reached_at[d, heads] = (layer.kl32, t_eps)
        return self._reached_at[d, heads][0]

    def _shape(self, d: int, heads: int) -> Architecture:
        width = head_width(self._table, d, self._d_head)
        return Architecture(heads, d, width, self._table.context, self._table.vocab)

    def heads(self, d: int) -> int | None:
        """The fewest heads with which width d reaches the divergence, or None."""
        from rote.solvers.distribution import fewest_heads

        bound = self.encoder(d)
        # Rounding to float32 costs up to 1e-6 nats.
        enough = self._kl + 1e-6
        if bound.kl > enough:
            return None
        if self._n_heads is not None:
            return self._n_heads if self._reached(d, self._n_heads) <= enough else None
        all_contexts = self._table.t_eps(0.0)
        high = fewest_heads(self._table, all_contexts, d, head_width(self._table, d, self._d_head))
        if high is None:
            return None
        fewest = 1 + bisect_left(range(1, high), True, key=lambda heads: self._reached(d, heads) <= enough)
        return fewest if self._reached(d, fewest) <= enough else None

    def plan(self, d: int, heads: int, dtype: Dtype, counts: Convention) -> Plan:
        kl = self._reached(d, heads)
        _, t_eps = self._reached_at[d, heads]
        arch = self._shape(d, heads)
        params = arch.params(counts)
        encoder, epsilon = self.encoder(d).kl, epsilon_of(self._table, t_eps)
        note = (
            "the embedding alone is the best encoder: contexts have one token"
            if self._table.context == 1
            else f"{kl:.4g} nats, the width's bound is {encoder:.4g}; T_eps = {t_eps:,} at epsilon {epsilon:.3g}"
        )
        return Plan(
            self._construction.key,
            arch,
            params,
            stored_bytes(params, dtype),
            self._table.n_facts,
            note,
            dtype,
            measures={"kl": kl, "encoder_kl": encoder, "epsilon": epsilon, "t_eps": t_eps},
        )
