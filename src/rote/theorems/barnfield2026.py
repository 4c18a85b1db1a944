"""Linear associative memory, winner takes all (Barnfield, Kim, Nichani, Lee, Lu 2026).

Statement: in an isotropic Gaussian model, storing n pairs in a d x d matrix so that every right answer has the largest
           score needs d^2 of order n ln n, for any such memory; the sum of outer products reaches that order, with a
           sharp transition. If the answer need only be among the strongest candidates, d^2 of order n is enough. The
           sharp threshold of the best memory for the largest score is conjectured to be d^2 ~ 2 n ln n.
Notation:  d = d_model, n = pairs (a pair is a fact).
Source:    arXiv 2605.05189 v1, known to us by its abstract.
Differs:   nothing; orders stay orders. The conjectured constant agrees with the replica result (giorlandino2026).
"""

from __future__ import annotations

from rote.theorems import Bound, Citation, Setting, Theorem, condition
from rote.theorems._associative import pairs_at

__all__ = ["theorem"]


class _Theorem(Theorem):
    title = "One matrix as a memory, orders"
    kind = "order"
    citation = Citation(
        authors="Barnfield, Kim, Nichani, Lee, Lu",
        title="Sharp Capacity Thresholds in Linear Associative Memory: From Winner-Take-All to Listwise Retrieval",
        year=2026,
        where="top-1 and listwise retrieval, abstract",
        arxiv="2605.05189v1",
    )
    statement = "A d x d matrix needs d^2 of order n ln n for n top answers, of order n for answers in a short list."
    promises = "recall of random pairs, up to constants"

    def bound(self, setting: Setting) -> Bound:
        d = setting.arch.d_model
        return self.make(
            setting,
            params=d * d,
            conditions=(condition("Gaussian pairs", None, "keys and values are isotropic Gaussian vectors"),),
            formula=(
                f"d^2 = {d * d:,} = Theta(n ln n); conjectured d^2 ~ 2 n ln n: n = {pairs_at(d * d, 0.5):,}; "
                f"in a short list Theta(n)"
            ),
            counts="one d x d matrix",
            own_shape=True,
        )


theorem = _Theorem()
