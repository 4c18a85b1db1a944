"""The transformer of a hashed table of sequences: every position asks, and each gets a label of its own.

    a^h_ps  = softmax over s of  (W_Q^h x_p) . (W_K^h x_s)     head h copies the token at one position, or the
                                                               code of the position p that asks
    z_p     = (W_V^1 sum_s a^1_ps x_s, ..., W_V^H sum_s a^H_ps x_s, 1)

The layers are those of a hashed table (see `hashed_transformer`), applied to each z_p.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from rote.data.outputs import Outputs
from rote.models._base import Answer, Wording
from rote.models._views import HeadsView
from rote.models.kinds.hashed_transformer import (
    HashedTransformer,
    HashedTransformerModel,
    Words,
    as_tensors,
    shape_of,
)
from rote.referee.judges.hashed_sequences import PositionScores

__all__ = ["HashedSequences", "HashedSequencesModel", "model"]


class HashedSequences(HashedTransformer):
    """Sequences (B, S) of token ids to scores (B, S, C) of the classes."""

    kind = "hashed_sequences"
    every_position = True

    @property
    def numbers(self) -> int:
        return self.arch.context * super().numbers

    def _attended(self, x: Tensor) -> Tensor:
        """Attention weights (B, H, S, S) of every position."""
        heads = self.arch.n_heads
        split = (*x.shape[:2], heads, -1)
        queries, keys = ((x @ w.T).reshape(split).transpose(1, 2) for w in (self.W_Q, self.W_K))
        pattern: Tensor = self.hook_pattern(torch.softmax(queries @ keys.transpose(2, 3), dim=-1))
        return pattern

    def _copied(self, x: Tensor) -> Tensor:
        values = self.W_V.reshape(self.arch.n_heads, self.arch.d_head, -1)
        mixed = self._attended(x) @ x[:, None]
        copied: Tensor = self.hook_z(torch.einsum("bhpd,hwd->bphw", mixed, values))
        return copied.flatten(2)


class HashedSequencesModel(HashedTransformerModel):
    """A hashed table of sequences with its words."""

    kind = "hashed_sequences"
    speaks_labels = True
    Module = HashedSequences

    @classmethod
    def examples(cls, seed: int) -> list[Self]:
        from rote.solvers.hashed.memorise import memorise
        from rote.solvers.hashed.network import matrices
        from rote.solvers.hashed.planning import layouts

        sequences = np.array([[a, b] for a in range(3) for b in range(3)])
        keys = np.stack([np.insert(row, 2, 3 + place) for row in sequences for place in range(2)])
        wording, words = Wording(tuple("abcxyz"), "cells", 2), Words((0, 1, 2), (3, 4, 5))
        *_, layout = layouts(18, 3, 5, 3, "float32", asking=2)
        table = memorise(keys, np.arange(18) % 3, layout, np.random.default_rng(seed))
        return [cls(shape_of(layout, 6), words, as_tensors(matrices(table.hashing, table.rows), "float32"), wording)]

    def outputs(self, dtype: str) -> Outputs:
        from rote.referee.outputs import ModuleOutputs

        said = ModuleOutputs(self.module, dtype).said
        return PositionScores(lambda tokens: said((tokens,)), self.words.labels, self.arch.vocab)

    def logits(self, contexts: Any) -> Any:
        """Scores (B, S, N) of the whole vocabulary; tokens that are no answers have none."""
        scores = self.module(contexts)
        every = scores.new_full((*scores.shape[:2], self.arch.vocab), float("-inf"))
        every[..., list(self.words.labels)] = scores
        return every

    def answers(self, words: Sequence[str], top: int) -> list[Answer]:
        """One label per position."""
        with torch.no_grad():
            scores = self.module(self.tensor([self.ids(words)]))[0].to("cpu", torch.float64)
        likely = torch.softmax(scores, dim=-1).max(dim=-1)
        return [
            Answer(self._spelled(label), float(probability), float(scores[place, label]))
            for place, (probability, label) in enumerate(zip(*likely, strict=True))
        ]

    def first_answers(self, contexts: Any) -> list[str]:
        return [" ".join(map(self._spelled, row)) for row in self._best(self.tensor(contexts)).tolist()]

    def heads(self, ids: Sequence[int]) -> HeadsView | None:
        """A head does another thing for every position that asks."""
        return None


model = HashedSequencesModel
