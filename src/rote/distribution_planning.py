"""`plan` for distributions: the smallest width, and then the fewest heads, that reach a divergence.

Heads are counted by building: the layer of the planned shape is made and its divergence measured, so the number is not
an estimate. A build of that shape with the same seed makes the same layer, or a better one of its other draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from rote.building import as_generator
from rote.config import Architecture, Dtype
from rote.data import DistributionTable
from rote.distribution_building import (
    LARGEST_SOLVE,
    capacity_of,
    distribution_builders,
    epsilon_of,
    head_width,
)
from rote.errors import CapacityError, UsageError
from rote.solvers.record import Progress, quiet
from rote.theorems import stored_bytes

__all__ = ["DistributionPlan", "plan_distribution"]


@dataclass(frozen=True)
class DistributionPlan:
    """A shape, and the divergence that it reached."""

    architecture: Architecture
    kl: float
    encoder_kl: float
    epsilon: float
    t_eps: int
    n_contexts: int
    dtype: Dtype
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        arch = self.architecture
        return {
            "construction": "distribution_refit",
            "architecture": arch.to_dict(),
            "d_model": arch.d_model,
            "n_heads": arch.n_heads,
            "d_head": arch.d_head,
            "params": arch.params(),
            "bytes": stored_bytes(arch.params(), self.dtype),
            "facts": self.n_contexts,
            "dtype": self.dtype,
            "kl": self.kl,
            "encoder_kl": self.encoder_kl,
            "epsilon": self.epsilon,
            "t_eps": self.t_eps,
            "note": self.note,
        }


def plan_distribution(
    table: DistributionTable,
    kl: float,
    *,
    d_model: int | None = None,
    n_heads: int | None = None,
    d_head: int | None = None,
    dtype: Dtype = "float32",
    seed: int = 0,
    progress: Progress = quiet,
) -> list[DistributionPlan]:
    """Shapes that reach `kl` nats: the smallest d_model with the fewest heads first, then wider ones with fewer heads.

    `table` has full support. Empty where a fixed d_model or n_heads makes it impossible.
    """
    if not (isinstance(kl, (int, float)) and math.isfinite(kl) and kl >= 0):
        raise UsageError(f"the divergence to reach must be a number of nats from 0, got {kl}.")
    search = _Search(table, kl, n_heads, d_head, seed, progress)
    if d_model is not None:
        found = search.heads(d_model)
        return [] if found is None else [search.plan(d_model, found, dtype)]
    most = min(table.vocab - 1, table.n_contexts)
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if search.encoder(middle, scouting=True).kl <= kl:
            high = middle
        else:
            low = middle + 1
    plans: list[DistributionPlan] = []
    small = table.n_contexts * table.vocab * high <= 3_000_000
    widths = [high, *(sorted({min(most, math.ceil(high * f)) for f in (1.25, 1.6)} - {high}) if small else ())]
    for d in widths:
        found = search.heads(d)
        if found is not None:
            plans.append(search.plan(d, found, dtype))
    # With a fixed number of heads the narrowest encoder may not be reachable, and a wider one may.
    while not plans and widths[-1] < most:
        widths.append(min(most, 2 * widths[-1]))
        found = search.heads(widths[-1])
        if found is not None:
            plans.append(search.plan(widths[-1], found, dtype))
    return plans


class _Search:
    def __init__(
        self,
        table: DistributionTable,
        kl: float,
        n_heads: int | None,
        d_head: int | None,
        seed: int,
        progress: Progress,
    ) -> None:
        self._table, self._kl, self._n_heads, self._d_head = table, kl, n_heads, d_head
        self._seed, self._progress = seed, progress
        self._bounds: dict[int, Any] = {}
        self._made: dict[tuple[int, int], tuple[float, int]] = {}
        self._builder = distribution_builders()["distribution_refit"]

    def encoder(self, d: int, *, scouting: bool = False) -> Any:
        """The best encoder of a width; with two starts only while the width is being looked for."""
        if scouting and d not in self._bounds:
            from rote.solvers.encoder import encoder_bound

            self._progress(f"encoder of width {d}", 0, 1, None)
            return encoder_bound(self._table, d, rng=as_generator(self._seed)[0], starts=2)
        if d not in self._bounds:
            from rote.solvers.encoder import encoder_bound

            self._progress(f"encoder of width {d}", 0, 1, None)
            for_bound = as_generator(self._seed)[0].spawn(3)[0]
            self._bounds[d] = encoder_bound(self._table, d, rng=for_bound)
        return self._bounds[d]

    def _reached(self, d: int, heads: int) -> float:
        """The divergence of a layer of this shape."""
        if (d, heads) not in self._made:
            self._progress(f"layer of width {d}, {heads} heads", 0, 1, None)
            arch = self._shape(d, heads)
            t_eps = capacity_of(self._table, arch)
            if t_eps > LARGEST_SOLVE and t_eps == self._table.t_eps(0.0):
                raise CapacityError(
                    f"{t_eps:,} contexts are more than the solve takes ({LARGEST_SOLVE:,}); ask for a larger --kl."
                )
            for_layer = as_generator(self._seed)[0].spawn(3)[1]
            layer = self._builder.layer(self._table, self.encoder(d), arch, n_contexts=t_eps, rng=for_layer, tries=1)
            self._made[d, heads] = (layer.kl32, t_eps)
        return self._made[d, heads][0]

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
        low = 1
        reached = partial(self._reached, d)
        while low < high:
            middle = (low + high) // 2
            if reached(middle) <= enough:
                high = middle
            else:
                low = middle + 1
        return high

    def plan(self, d: int, heads: int, dtype: Dtype) -> DistributionPlan:
        kl = self._reached(d, heads)
        _, t_eps = self._made[d, heads]
        note = "the embedding alone is the best encoder: contexts have one token" if self._table.context == 1 else ""
        return DistributionPlan(
            self._shape(d, heads),
            kl,
            self.encoder(d).kl,
            epsilon_of(self._table, t_eps),
            t_eps,
            self._table.n_contexts,
            dtype,
            note,
        )
