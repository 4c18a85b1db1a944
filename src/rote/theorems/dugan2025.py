"""MLPs made of facts, and the decodability of values (Dugan, Garcia, Junkins, Liu, Zinsley, Eyuboglu, Rudra, Re 2025).

Statement: for all but a measure-zero set of feasible inputs and outputs a gated MLP with one hidden layer can be
           written down that maps every key to its value by the largest dot product; how many parameters it takes is
           governed by a measure of the value embeddings, their decodability, and matches information theory for some
           embeddings.
Notation:  m = d_mlp, d = d_model, T = n_facts.
Source:    arXiv 2512.00207 v1, known to us by its abstract.
Differs:   nothing; the formula of decodability is not in the abstract, so there is no number. Theta(T log T) bits is
           what information theory asks of T facts with T possible answers.
"""

from __future__ import annotations

from rote.theorems import Bound, Citation, Setting, Theorem, condition

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "Constructed MLPs, by decodability"
    kind = "order"
    citation = Citation(
        authors="Dugan, Garcia, Junkins, Liu, Zinsley, Eyuboglu, Rudra, Ré",
        title="Constructing Efficient Fact-Storing MLPs for Transformers",
        year=2025,
        where="construction, abstract",
        arxiv="2512.00207v1",
    )
    statement = "A gated MLP of an order of parameters that information theory allows holds any feasible facts."
    promises = "existence up to constants, for value embeddings that decode well"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        weights = 3 * arch.d_model * arch.d_mlp
        return self.make(
            setting,
            params=weights or None,
            conditions=(
                condition("an MLP", arch.d_mlp > 0, f"d_mlp = {arch.d_mlp}"),
                condition("decodability", None, "a measure of the value embeddings; depends on them"),
            ),
            formula=f"T log T = Theta(3 d m) = Theta({weights:,}) at best",
            counts="the gated MLP",
        )


theorem = _Theorem()
