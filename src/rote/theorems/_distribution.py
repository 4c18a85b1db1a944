"""The base class of theorems that build models of distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rote.config import Architecture
from rote.theorems._base import Theorem

if TYPE_CHECKING:
    import numpy as np

    from rote.data import DistributionTable
    from rote.solvers.distribution import Layer, Method
    from rote.solvers.encoder import EncoderBound

__all__ = ["DistributionBuilder"]


class DistributionBuilder(Theorem):
    """A theorem that hands over an attention-only layer for a table of distributions.

    `rote build --task distribution` finds the best encoder of the width first, then asks for a layer that follows it on
    the `n_contexts` most likely contexts, and lets the referee measure the divergence.
    """

    method: Method
    """What is done about the contexts that are left out: "interpolation" or "refit"."""

    def layer(
        self,
        table: DistributionTable,
        bound: EncoderBound,
        arch: Architecture,
        *,
        n_contexts: int,
        rng: np.random.Generator,
        rank1_qk: bool = False,
        tries: int | None = None,
    ) -> Layer:
        """The layer; CapacityError where the shape does not tell so many contexts apart."""
        from rote.solvers.distribution import attend

        return attend(
            table,
            bound,
            n_heads=arch.n_heads,
            d_head=arch.d_head,
            n_contexts=n_contexts,
            method=self.method,
            rng=rng,
            rank_one_qk=rank1_qk,
            tries=tries,
        )
