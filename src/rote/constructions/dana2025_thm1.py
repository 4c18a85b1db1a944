"""Attention only, distributions interpolated as in the proof."""

from __future__ import annotations

from dataclasses import dataclass

from rote.constructions._distributions import DistributionConstruction, DistributionOptions

__all__ = ["Interpolation", "construction"]


@dataclass(frozen=True)
class Interpolation(DistributionOptions):
    """Options of `dana2025_thm1`."""


class _Construction(DistributionConstruction):
    title = "Attention only, distributions interpolated as in the proof"
    Options = Interpolation
    method = "interpolation"
    automatic = False


construction = _Construction()
