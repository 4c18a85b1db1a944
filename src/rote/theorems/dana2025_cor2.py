"""Accuracy beyond the capacity (Dana, Pydi, Chevaleyre 2025, Corollary 2).

Statement: under the conditions of Corollary 1 and a uniform prior, a table of T_0 >= H d_h + d facts is recalled with
           accuracy at least 1/N + (1 - 1/N) (H d_h + d) / T_0: what fits is stored, the rest is guessed.
Notation:  H = n_heads, d = d_model, d_h = d_head, N = vocab, T_0 = n_facts.
Source:    arXiv 2411.10115 v2.
Differs:   `facts` is the number stored, H d_h + d; lucky guesses are in the accuracy of the formula, not in the facts.
"""

from __future__ import annotations

from rote.theorems import Bound, Setting, Theorem, _dana, condition
from rote.theorems._citations import dana2025

__all__ = ["accuracy", "theorem"]


def accuracy(capacity: int, vocab: int, n_facts: int) -> float:
    """1/N + (1 - 1/N) min(1, capacity / T_0)."""
    return 1 / vocab + (1 - 1 / vocab) * min(1.0, capacity / n_facts)


class _Theorem(Theorem):
    title = "Attention only, accuracy when overloaded"
    kind = "lower"
    citation = dana2025("Corollary 2")
    statement = "Of T_0 equally likely facts, one attention-only layer recalls a share of at least (H d_h + d)/T_0."
    promises = "accuracy"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        capacity = _dana.association_capacity(arch)
        n = arch.vocab
        if setting.n_facts is None:
            formula = f"accuracy >= 1/N + (1 - 1/N)(H d_h + d)/T_0 = 1/{n} + (1 - 1/{n}) {capacity:,}/T_0"
        else:
            share = accuracy(capacity, n, setting.n_facts)
            formula = (
                f"accuracy >= 1/N + (1 - 1/N)(H d_h + d)/T_0 = 1/{n} + (1 - 1/{n}) {capacity:,}/{setting.n_facts:,}"
                f" = {share:.4f}"
            )
        return self.make(
            setting,
            facts=capacity,
            conditions=(*_dana.conditions(setting), condition("uniform prior", None, "every fact equally likely")),
            formula=formula,
        )


theorem = _Theorem()
