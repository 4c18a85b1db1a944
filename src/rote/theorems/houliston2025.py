"""Facts in weights against facts behind a tool (Houliston, Odonnat, Arnal, Cabannes 2025).

Statement: the number of facts that a model recalls from its weights alone is limited by its parameters, linearly; with
           a tool that looks facts up, a circuit of fixed size recalls any number of them.
Notation:  W = parameters, b = bits of a number, N = vocab, T = n_facts.
Source:    arXiv 2508.20755 v1, known to us by its abstract.
Differs:   the constant is not in the abstract; the count of the limit, b W / log2 N, is the theorem `counting`.
"""

from __future__ import annotations

from rote.config import bits_of
from rote.theorems import Bound, Citation, Setting, Theorem, condition

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "In weights: at most linear; by a tool: any number"
    kind = "order"
    citation = Citation(
        authors="Houliston, Odonnat, Arnal, Cabannes",
        title="Provable Benefits of In-Tool Learning for Large Language Models",
        year=2025,
        where="both theorems, abstract",
        arxiv="2508.20755v1",
    )
    statement = "Facts in weights are O(W); with a tool that looks them up there is no such limit."
    promises = "a limit up to constants, and a circuit beyond it"

    def bound(self, setting: Setting) -> Bound:
        w, bits = setting.arch.params("full"), bits_of(setting.dtype)
        counted = (
            f"by counting at most {bits} W / log2 {setting.arch.vocab:,}" if bits else "exact numbers count as none"
        )
        return self.make(
            setting,
            conditions=(condition("no tool", None, "facts come from the weights alone"),),
            formula=f"T = O(W) = O({w:,}); {counted}",
        )


theorem = _Theorem()
