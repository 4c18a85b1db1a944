"""Facts in attention or in the MLP, linearly (Nichani, Lee, Bietti 2024).

Statement: linear and MLP associative memories store a number of random pairs that is linear in their parameters, up to
           logarithms. On a task of subjects, relations and answers, one layer of attention followed by an MLP recalls
           every fact as soon as either the parameters of attention or those of the MLP are, up to logarithms, linear
           in the number of facts; information theory allows no more, up to logarithms.
Notation:  H = n_heads, d = d_model, d_h = d_head, m = d_mlp, T = n_facts.
Source:    arXiv 2412.06538 v1, known to us by its abstract.
Differs:   nothing; constants and powers of logarithms are not in the abstract, so this stays an order.
"""

from __future__ import annotations

from rote.theorems import Bound, Citation, Setting, Theorem, condition

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Facts linear in attention or in the MLP"
    kind = "order"
    citation = Citation(
        authors="Nichani, Lee, Bietti",
        title="Understanding Factual Recall in Transformers via Associative Memories",
        year=2024,
        where="main results, abstract",
        arxiv="2412.06538v1",
        venue="ICLR 2025",
    )
    statement = "Attention or MLP parameters linear in the facts, up to logarithms, recall all of them."
    promises = "existence up to constants and logarithms"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        heads, mlp = 4 * arch.n_heads * arch.d_model * arch.d_head, 2 * arch.d_model * arch.d_mlp
        return self.make(
            setting,
            conditions=(
                condition("one layer", arch.n_layers == 1 or None, "stated for one layer of attention and an MLP"),
                condition("random embeddings", None, "tokens are random vectors"),
            ),
            formula=f"T = Theta~(max(4 H d d_h, 2 d m)) = Theta~(max({heads:,}, {mlp:,}))",
            params=max(heads, mlp),
            counts="attention, or the MLP, whichever has more",
        )


theorem = _Theorem()
