"""Attention only, distributions by a convex refit."""

from __future__ import annotations

from dataclasses import dataclass

from rote.constructions._distributions import DistributionConstruction, DistributionOptions

__all__ = ["DistributionRefit", "construction"]


@dataclass(frozen=True)
class DistributionRefit(DistributionOptions):
    """Options of `distribution_refit`."""


class _Construction(DistributionConstruction):
    title = "Attention only, distributions by a convex refit"
    Options = DistributionRefit
    method = "refit"
    automatic = True


construction = _Construction()
