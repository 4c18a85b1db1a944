"""A table of last tokens (worked example of docs/adding-a-theorem.md).

Statement: for any T <= N facts whose contexts end in T different tokens, there is a transformer of width d >= 2 that
           recalls all of them, whatever its heads: all W_O and W_pos are zero, the rows of W_U are N different unit
           vectors, and the embedding of a last token is the row of W_U that belongs to its target. 2 N d weights.
Notation:  d = d_model, N = vocab, T = n_facts, L = distinct last tokens.
Source:    this page.
Differs:   nothing.
"""

from __future__ import annotations

from rote.theorems import Bound, Citation, Setting, Theorem, condition

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "A table of last tokens"
    kind = "lower"
    citation = Citation(
        authors="The rote developers",
        title="Adding a theorem",
        year=2026,
        where="worked example",
        venue="documentation of rote",
    )
    statement = "Embedding and unembedding alone recall one fact for each of N last tokens."

    def bound(self, setting: Setting) -> Bound:
        arch, last = setting.arch, setting.distinct_last
        facts = arch.vocab if last is None else last
        return self.make(
            setting,
            facts=facts,
            params=2 * arch.vocab * arch.d_model,
            conditions=(
                condition("two dimensions", arch.d_model >= 2, f"d_model = {arch.d_model}, needs 2"),
                condition("one fact per last token", None, "last tokens must differ; depends on the data"),
            ),
            formula=f"N = {facts:,}" if last is None else f"L = {facts:,}",
            counts="W_E and W_U; all other weights are zero",
        )


theorem = _Theorem()
