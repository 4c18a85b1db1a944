"""One bit of knowledge per parameter after 100 exposures (Allen-Zhu, Li 2024; measured).

Statement: language models that saw each fact of synthetic biographies 100 times, not 1,000, store about 1 bit per
           parameter.
Notation:  W = parameters, N = vocab.
Source:    arXiv 2404.05405; the figure is as it was reported to us, the abstract has the 2 bits alone (allenzhu2024).
Differs:   turned into facts by log2 N bits for a fact.
"""

from __future__ import annotations

from rote.theorems._citations import allenzhu2024
from rote.theorems._empirical import BitsPerParameter

__all__ = ["theorem"]


class _Constant(BitsPerParameter):
    title = "Measured: 1 bit per parameter after 100 exposures"
    bits = 1.0
    regime = "GPT-2-like models, 100 exposures of each fact"
    citation = allenzhu2024("100 exposures")
    statement = "Language models that saw each fact 100 times were measured to hold about 1 bit per parameter."


theorem = _Constant()
