"""One bit of knowledge per parameter after 100 exposures (Allen-Zhu, Li 2024; measured).

Statement: GPT-2 with rotary embedding that saw each fact of synthetic biographies 100 times, not 1,000, stores about
           1 bit per parameter (result 4); LLaMA and Mistral store 1.3 times less then (result 6), because of their
           gated MLPs (result 7).
Notation:  W = parameters, N = vocab.
Source:    arXiv 2404.05405, results 4, 6 and 7.
Differs:   turned into facts by log2 N bits for a fact; a shape with a gated MLP is counted as LLaMA was.
"""

from __future__ import annotations

from rote.theorems import Setting
from rote.theorems._citations import allenzhu2024
from rote.theorems._empirical import BitsPerParameter

__all__ = ["theorem"]

_GATED = 1.3


class _Constant(BitsPerParameter):
    title = "Measured: 1 bit per parameter after 100 exposures"
    bits = 1.0
    regime = "GPT-2-like models, or LLaMA where the MLP is gated, 100 exposures of each fact"
    citation = allenzhu2024("results 4, 6, 7")
    statement = (
        "Language models that saw each fact 100 times were measured to hold about 1 bit per parameter, "
        "1.3 times less with gated MLPs."
    )

    def rate(self, setting: Setting) -> float:
        return self.bits / _GATED if setting.arch.gated and setting.arch.d_mlp else self.bits


theorem = _Constant()
