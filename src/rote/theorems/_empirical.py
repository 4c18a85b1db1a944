"""Measured constants: so many bits of knowledge per parameter, in trained language models."""

from __future__ import annotations

import math

from rote.theorems import Bound, Setting, Theorem, condition

__all__ = ["BitsPerParameter"]


class BitsPerParameter(Theorem):
    """T = rho W / log2 N for a measured rho; no theorem, and no promise for a model that is not trained that way."""

    kind = "empirical"
    promises = "what training reached in one study"
    bits: float
    regime: str

    def rate(self, setting: Setting) -> float:
        """rho for a setting."""
        return self.bits

    def bound(self, setting: Setting) -> Bound:
        w, n, rho = setting.arch.params("full"), setting.arch.vocab, self.rate(setting)
        # A quotient that is whole must not be lost to rounding.
        facts = math.floor(rho * w / math.log2(n) * (1 + 1e-12))
        return self.make(
            setting,
            facts=facts,
            conditions=(condition("regime", None, self.regime),),
            formula=f"{rho:g} W/log2 N = {rho:g} * {w:,}/log2 {n:,} = {facts:,}",
        )
