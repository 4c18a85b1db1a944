"""Under a bit per parameter in int4 (Allen-Zhu, Li 2024; measured).

Statement: models trained to 2 bits per parameter keep them when quantised to int8, and about 0.7 bits when
           quantised to int4.
Notation:  W = parameters, N = vocab.
Source:    arXiv 2404.05405; the figure is as it was reported to us, the abstract has the 2 bits alone (allenzhu2024).
Differs:   turned into facts by log2 N bits for a fact.
"""

from __future__ import annotations

from rote.theorems._citations import allenzhu2024
from rote.theorems._empirical import BitsPerParameter

__all__ = ["theorem"]


class _Constant(BitsPerParameter):
    title = "Measured: 0.7 bits per parameter in int4"
    bits = 0.7
    regime = "GPT-2-like models, 1000 exposures, weights quantised to int4"
    citation = allenzhu2024("quantisation to int4")
    statement = "Quantised to int4, trained language models were measured to keep about 0.7 bits per parameter."


theorem = _Constant()
