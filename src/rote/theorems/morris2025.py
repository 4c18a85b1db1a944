"""About 3.6 bits per parameter (Morris et al. 2025; measured).

Statement: GPT-family models trained on uniformly random data memorise about 3.6 bits per parameter: 3.51 on average if
           trained in bfloat16, 3.83 in float32.
Notation:  W = parameters, N = vocab.
Source:    arXiv 2505.24832.
Differs:   turned into facts by log2 N bits for a fact; for other formats than these two the round figure is taken.
"""

from __future__ import annotations

from rote.theorems import Citation, Setting
from rote.theorems._empirical import BitsPerParameter

__all__ = ["theorem"]

_BITS = {"bfloat16": 3.51, "float32": 3.83}


class _Constant(BitsPerParameter):
    title = "Measured: 3.6 bits per parameter"
    bits = 3.6
    regime = "GPT-style models on random bits, trained in this format"
    citation = Citation(
        authors="Morris et al.",
        title="How much do language models memorize?",
        year=2025,
        where="3.6 bits per parameter",
        arxiv="2505.24832",
    )
    statement = "Trained GPT-style models were measured to memorise 3.5 (bfloat16) to 3.8 (float32) bits per parameter."

    def rate(self, setting: Setting) -> float:
        return _BITS.get(setting.dtype, self.bits)


theorem = _Constant()
