"""About 3.6 bits per parameter (Morris et al. 2025; measured).

Statement: GPT-family models trained on uniformly random data memorise about 3.6 bits per parameter.
Notation:  W = parameters, N = vocab.
Source:    arXiv 2505.24832.
Differs:   turned into facts by log2 N bits for a fact.
"""

from __future__ import annotations

from rote.theorems import Citation
from rote.theorems._empirical import BitsPerParameter

__all__ = ["theorem"]


class _Constant(BitsPerParameter):
    title = "Measured: 3.6 bits per parameter"
    bits = 3.6
    regime = "GPT-style models on random bits, bfloat16 and float32"
    citation = Citation(
        authors="Morris et al.",
        title="How much do language models memorize?",
        year=2025,
        where="3.6 bits per parameter",
        arxiv="2505.24832",
    )
    statement = "Trained GPT-style models were measured to memorise about 3.6 bits of random data per parameter."


theorem = _Constant()
