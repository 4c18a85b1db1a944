"""Two bits of knowledge per parameter (Allen-Zhu, Li 2024; measured).

Statement: language models trained long enough on synthetic biographies store about 2 bits of knowledge per parameter,
           also after quantisation to int8. Models with gated MLPs (LLaMA, Mistral) hold less when trained for shorter,
           being harder to train; how much less is not in the abstract.
Notation:  W = parameters, N = vocab.
Source:    arXiv 2404.05405.
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
    citation = allenzhu2024("2 bits per parameter")
    statement = "Trained language models were measured to hold about 2 bits of knowledge per parameter."


theorem = _Constant()
