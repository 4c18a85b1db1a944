"""Mixtures of 32 experts hold nearly as much (Allen-Zhu, Li 2024; measured).

Statement: GPT-2 whose MLP is a mixture of 32 experts (each d -> d -> d) holds 1.3 times less per parameter than GPT-2
           after 1,000 exposures of each fact, and 1.5 times less after 100, all experts counted, though it uses 8.8 %
           of its parameters for a token.
Notation:  W = parameters, of all experts; N = vocab.
Source:    arXiv 2404.05405, result 9.
Differs:   the figure is that of 1,000 exposures, 2/1.3 = 1.54 bits; turned into facts by log2 N bits for a fact. rote's
           shapes have no experts: it is what a mixture with as many parameters would hold.
"""

from __future__ import annotations

from rote.theorems._citations import allenzhu2024
from rote.theorems._empirical import BitsPerParameter

__all__ = ["theorem"]


class _Constant(BitsPerParameter):
    title = "Measured: 1.54 bits per parameter in mixtures of 32 experts"
    bits = 2.0 / 1.3
    regime = "GPT-2-like mixtures of 32 experts with as many parameters in all, 1000 exposures of each fact"
    citation = allenzhu2024("result 9")
    statement = "Mixtures of 32 experts were measured to hold 1.3 times less per parameter, all experts counted."


theorem = _Constant()
