"""Two bits of knowledge per parameter (Allen-Zhu, Li 2024; measured).

Statement: GPT-2 with rotary embedding that saw each fact of synthetic biographies 1,000 times stores about 2 bits of
           knowledge per parameter, whatever its size, depth and width (results 1 to 3); LLaMA and Mistral, whose MLPs
           are gated, and GPT-2 without an MLP come close to it too (result 5); in int8 nothing is lost (result 8).
Notation:  W = parameters, N = vocab.
Source:    arXiv 2404.05405, results 1 to 3, 5 and 8.
Differs:   turned into facts by log2 N bits for a fact.
"""

from __future__ import annotations

from rote.theorems._citations import allenzhu2024
from rote.theorems._empirical import BitsPerParameter

__all__ = ["theorem"]


class _Constant(BitsPerParameter):
    title = "Measured: 2 bits per parameter"
    bits = 2.0
    regime = "GPT-2-like models, 1000 exposures of each fact"
    citation = allenzhu2024("results 1 to 3, 5, 8")
    statement = "Trained language models were measured to hold about 2 bits of knowledge per parameter."


theorem = _Constant()
