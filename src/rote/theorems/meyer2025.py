"""What a prompt can memorise (Meyer, Michelessa, Chaux, Tan 2025).

Statement: with frozen weights, the information that a transformer memorises through a tuned prompt cannot grow faster
           than linearly with the length of the prompt.
Notation:  n = context; the prompt takes part of it.
Source:    arXiv 2509.00421 v1, known to us by its abstract.
Differs:   nothing; the constant is not in the abstract. Counting gives one that holds: a prompt of k vectors of d
           numbers of b bits tells at most k d b bits apart.
"""

from __future__ import annotations

from rote.config import bits_of
from rote.theorems import Bound, Citation, Setting, Theorem, condition

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Prompts: at most linear"
    kind = "order"
    citation = Citation(
        authors="Meyer, Michelessa, Chaux, Tan",
        title="Memory Limitations of Prompt Tuning in Transformers",
        year=2025,
        where="first result, abstract",
        arxiv="2509.00421v1",
    )
    statement = "What is memorised in a tuned prompt grows at most linearly with its length."
    promises = "a limit on what prompts add, up to constants"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        bits = bits_of(setting.dtype)
        width = f"{arch.d_model * bits:,} k" if bits else "no limit with exact numbers"
        return self.make(
            setting,
            params=arch.d_model,
            conditions=(condition("frozen weights", None, "facts are in the prompt alone"),),
            formula=f"O(k) bits for k prompt vectors; by counting at most d b k = {width}",
            counts="one prompt vector",
        )


theorem = _Theorem()
