"""The judge of hashed tables of sequences: the network of a hashed table, asked by every position."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.data.outputs import Leads
from rote.errors import UsageError
from rote.referee.judges.hashed_transformer import ClassScores, HashedTransformerJudge
from rote.referee.outputs import Scores

if TYPE_CHECKING:
    from torch import Tensor

    from rote.data.table import Inputs

__all__ = ["PositionScores", "judge"]


class PositionScores(Scores):
    """A model with a score for every answer at every position, (B, S, C) or (B * S, C)."""

    gives = "a label for every position"

    def __init__(
        self, run: Callable[..., Any], labels: tuple[int, ...], vocab: int, *, rows_at_once: int = 4096
    ) -> None:
        super().__init__(run, takes="tokens", rows_at_once=rows_at_once)
        self._each = ClassScores(lambda tokens: run(tokens).flatten(0, -2), labels, vocab)

    def said(self, inputs: Inputs) -> Tensor:
        return super().said(inputs).reshape(len(inputs[0]), -1)

    def leads(self, inputs: Inputs, targets: Any) -> Leads:
        goals = np.asarray(targets)
        if goals.ndim != 2:
            raise UsageError("this model labels every position; give it facts whose target is a sequence.")
        leads, said = self._each.leads(inputs, goals.ravel())
        return leads.reshape(goals.shape), said.reshape(goals.shape)

    def scores(self, inputs: Inputs) -> Tensor:
        raise self.refusal("distributions")


class HashedSequencesJudge(HashedTransformerJudge):
    every_position = True
    Outputs = PositionScores


judge = HashedSequencesJudge()
