"""Under a bit per parameter in int4 (Allen-Zhu, Li 2024; measured).

Statement: models trained to 2 bits per parameter and then quantised by GPTQ keep them in int8, and about 0.7 bits in
           int4; quantisation during training was not tried.
Notation:  W = parameters, N = vocab.
Source:    arXiv 2404.05405, result 8.
Differs:   turned into facts by log2 N bits for a fact.
"""

from __future__ import annotations

from rote.theorems._citations import allenzhu2024
from rote.theorems._empirical import BitsPerParameter

__all__ = ["theorem"]


class _Constant(BitsPerParameter):
    title = "Measured: 0.7 bits per parameter in int4"
    bits = 0.7
    regime = "GPT-2-like models, 1000 exposures, weights quantised to int4 by GPTQ"
    citation = allenzhu2024("result 8")
    statement = "Quantised to int4, trained language models were measured to keep about 0.7 bits per parameter."


theorem = _Constant()
