"""Gated MLPs after 100 exposures (Allen-Zhu, Li 2024; measured).

Statement: with a gated MLP, as LLaMA and Mistral have it, models that saw each fact 100 times hold about 1.3 times
           less than with a plain one (allenzhu2024_exposures): 1/1.3 = 0.77 bits per parameter.
Notation:  W = parameters, N = vocab.
Source:    arXiv 2404.05405; the figure is as it was reported to us, the abstract has the 2 bits alone (allenzhu2024).
Differs:   turned into facts by log2 N bits for a fact.
"""

from __future__ import annotations

from rote.theorems import Condition, Setting, condition
from rote.theorems._citations import allenzhu2024
from rote.theorems._empirical import BitsPerParameter

__all__ = ["theorem"]


class _Constant(BitsPerParameter):
    title = "Measured: 0.77 bits per parameter, gated MLP, 100 exposures"
    bits = 1.0 / 1.3
    regime = "LLaMA-like models with gated MLPs, 100 exposures of each fact"
    citation = allenzhu2024("gated MLP, 100 exposures")
    statement = "With gated MLPs and 100 exposures language models were measured to hold about 0.77 bits per parameter."

    def regimes(self, setting: Setting) -> tuple[Condition, ...]:
        told = "gated" if setting.arch.gated else "the MLP of this shape is not gated"
        return (condition("gated MLP", setting.arch.gated, told), *super().regimes(setting))


theorem = _Constant()
