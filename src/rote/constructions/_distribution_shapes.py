"""Shapes of models of distributions: what a shape affords, and the fewest heads that reach an epsilon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rote.config import Architecture, Shape
from rote.errors import CapacityError, ShapeError, UsageError

if TYPE_CHECKING:
    from rote.data import DistributionTable

LARGEST_SOLVE = 12_000
"""Contexts beyond which the T_eps x T_eps solve is refused: more than a gigabyte for each copy of the matrix."""
MOST_FEATURES = 250_000_000


def head_width(table: DistributionTable, d_model: int, d_head: int | None) -> int:
    """The width of a head: as given, or the widest that still adds features."""
    if d_head is not None and d_head > d_model:
        raise ShapeError(f"a head of width {d_head} is wider than d_model = {d_model}; lower d_head.")
    return d_head if d_head is not None else max(1, min(d_model, table.vocab + table.context - 2))


def capacity_of(table: DistributionTable, arch: Architecture) -> int:
    """The most likely contexts, as many as a shape tells apart: the T_eps that it affords."""
    from rote.solvers.token_rank import rank_limit

    possible = table.t_eps(0.0)
    if arch.context == 1:
        return possible
    low, high = 1, min(possible, arch.n_heads * arch.d_head + arch.d_model)
    while low < high:
        middle = (low + high + 1) // 2
        likely = table.contexts[table.likely_first[:middle]]
        if rank_limit(likely, arch.vocab, arch.n_heads, arch.d_model, arch.d_head).value >= middle:
            low = middle
        else:
            high = middle - 1
    return low


def epsilon_of(table: DistributionTable, n_contexts: int) -> float:
    """The smallest eps, up to rounding, whose T_eps is `n_contexts`."""
    left = table.leftover(n_contexts)
    return 0.0 if n_contexts >= table.t_eps(0.0) else min(left + 1e-9, 1 - 1e-12)


@dataclass(frozen=True)
class Settled:
    """What is settled before anything is computed."""

    arch: Architecture
    epsilon: float
    t_eps: int
    planned: bool
    """Whether the number of heads is ours to raise."""
    least: int
    """The fewest heads with H d_h + d >= T_eps, or the number given."""


def settle(table: DistributionTable, shape: Shape, epsilon: float | None) -> Settled:
    """The shape that reaches epsilon, or the epsilon that a shape affords."""
    if shape.d_model is None:
        raise UsageError(
            "how good a model of distributions can be depends on its width: give d_model, or the divergence (kl) that "
            "a width is to be found for."
        )
    d_model, n_heads = shape.d_model, shape.n_heads
    width = head_width(table, d_model, shape.d_head)
    arch = Architecture(n_heads or 1, d_model, width, table.context, table.vocab)
    refuse_size(table, arch)
    if n_heads is not None and epsilon is None:
        t_eps = capacity_of(table, arch)
        return Settled(arch, epsilon_of(table, t_eps), t_eps, False, arch.n_heads)
    epsilon = epsilon or 0.0
    t_eps = table.t_eps(epsilon)
    if table.context > 1 and t_eps > LARGEST_SOLVE:
        raise CapacityError(
            f"T_eps is {t_eps:,} contexts at epsilon = {epsilon:g}, and the limit of the solve is {LARGEST_SOLVE:,}; "
            "allow a larger epsilon, or fewer heads without one."
        )
    if n_heads is None:
        from rote.solvers.distribution import fewest_heads

        heads = fewest_heads(table, t_eps, d_model, width)
        if heads is None:
            raise CapacityError(
                f"no number of heads of width {width} tells the {t_eps:,} likely contexts apart at d_model = {d_model}"
                "; allow a larger epsilon or another d_model."
            )
        arch = arch.replace(n_heads=heads)
        refuse_size(table, arch)
    elif capacity_of(table, arch) < t_eps:
        affords = capacity_of(table, arch)
        raise CapacityError(
            f"Theorem 1 needs H d_head + d_model >= T_eps = {t_eps:,} at epsilon = {epsilon:g}, and this shape tells "
            f"{affords:,} contexts apart; use more heads, or epsilon = {epsilon_of(table, affords):.4g} or more."
        )
    return Settled(arch, epsilon, t_eps, n_heads is None, arch.n_heads)


def refuse_size(table: DistributionTable, arch: Architecture) -> None:
    features = table.n_facts * (arch.n_heads * arch.d_head + arch.d_model)
    maps = arch.n_heads * arch.d_model * max(arch.d_model, arch.d_head)
    if max(features, maps, table.vocab * arch.d_model) > MOST_FEATURES:
        raise CapacityError(
            f"{arch.n_heads:,} heads of {arch.d_head:,} at d_model = {arch.d_model:,} for {table.n_facts:,} contexts"
            " need more memory than is sensible; lower d_model (N - 1 is enough for any distribution) or raise epsilon."
        )
