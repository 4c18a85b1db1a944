"""What the judges' forward passes say, in the forms that tables score: scores, values and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rote.data.outputs import Leads, Outputs
from rote.errors import UsageError

if TYPE_CHECKING:
    from rote.data.table import Inputs

__all__ = ["READS_TOKENS", "READS_VECTORS", "Labels", "ModuleOutputs", "TokenScores", "VectorOutputs", "Worse"]

READS_TOKENS = "this model reads tokens; give it a facts file, not vectors."
READS_VECTORS = "this model reads vectors; give it a .safetensors file of queries and contexts."
_ONE_ANSWER = "this model gives one answer per context; give it facts with one target."


class _Scores(Outputs):
    """A score for every token or class, (B, N): the target must have strictly the largest."""

    gives = "one answer per context"

    def __init__(self, run: Callable[..., Tensor], rows_at_once: int = 4096) -> None:
        self._run, self.rows_at_once = run, rows_at_once
        self._done = 0

    def check(self, inputs: Inputs) -> None:
        """Refuse what this kind of model cannot read."""

    def _said(self, inputs: Inputs) -> Tensor:
        self.check(inputs)
        with torch.no_grad():
            said = torch.as_tensor(self._run(*(torch.tensor(np.asarray(array)) for array in inputs)))
        self._done += len(said)
        if self.advance is not None:
            self.advance(self._done)
        return said

    def leads(self, inputs: Inputs, targets: Any) -> Leads:
        goals = torch.tensor(np.asarray(targets))
        if goals.ndim != 1:
            self.check(inputs)
            raise UsageError(_ONE_ANSWER)
        scores = self._said(inputs)
        if scores.ndim != 2 or len(scores) != len(goals) or int(goals.max()) >= scores.shape[1]:
            raise UsageError(
                f"the model must give every one of {len(goals)} contexts a score for each of at least "
                f"{int(goals.max()) + 1} answers, but its outputs have shape {tuple(scores.shape)}; it was made for "
                "other facts."
            )
        own = scores.gather(1, goals[:, None])[:, 0].to(torch.float64)
        best, rival = scores.scatter(1, goals[:, None], float("-inf")).max(dim=1)
        return (own - best.to(torch.float64)).numpy(), rival.numpy()


class TokenScores(_Scores):
    """Logits of a model that reads contexts (B, S) of token ids."""

    def check(self, inputs: Inputs) -> None:
        if len(inputs) != 1:
            raise UsageError(READS_TOKENS)

    def values(self, inputs: Inputs) -> Tensor:
        self.check(inputs)
        raise self.refusal("real targets")

    def scores(self, inputs: Inputs) -> Tensor:
        return self._said(inputs)


class VectorOutputs(_Scores):
    """Outputs of a model that reads contexts (B, n, d), or (n, d) where all share one, and queries (B, d)."""

    takes = "vectors"

    def check(self, inputs: Inputs) -> None:
        if len(inputs) != 2:
            raise UsageError(READS_VECTORS)

    def values(self, inputs: Inputs) -> Tensor:
        return self._said(inputs)

    def scores(self, inputs: Inputs) -> Tensor:
        self.check(inputs)
        raise self.refusal("distributions")


class ModuleOutputs(_Scores):
    """A module of somebody else's, called with whatever the table holds; real inputs are rounded to its format."""

    takes = "what its forward pass takes"

    def __init__(self, module: Callable[..., Any], number: torch.dtype) -> None:
        def run(*inputs: Tensor) -> Tensor:
            return torch.as_tensor(module(*(x.to(number) if x.is_floating_point() else x for x in inputs)))

        super().__init__(run)

    def values(self, inputs: Inputs) -> Tensor:
        said = self._said(inputs)
        return said[:, None] if said.ndim == 1 else said

    def scores(self, inputs: Inputs) -> Tensor:
        return self._said(inputs)


class Labels(Outputs):
    """A model whose output is the number of the label itself: (B,), or (B, S) with one for every position.

    `labels` says which token id each number stands for; None if the numbers are the classes themselves. The lead is
    what the error leaves of 1/2, the distance at which another label is nearer.
    """

    rows_at_once = 1 << 62

    def __init__(
        self, run: Callable[..., npt.NDArray[Any]], labels: tuple[int, ...] | None, *, every_position: bool = False
    ) -> None:
        self._run, self.labels, self.every_position = run, labels, every_position
        self.takes = "vectors" if labels is None else "tokens"
        self.gives = "a label for every position" if every_position else "one label per sequence"

    def check(self, inputs: Inputs, targets: Any) -> None:
        """Refuse facts of another kind."""
        if (len(inputs) == 2) != (self.labels is None):
            raise UsageError(READS_VECTORS if self.labels is None else READS_TOKENS)
        if (np.ndim(targets) == 2) != self.every_position:
            raise UsageError(
                "this model labels every position; give it facts whose target is a sequence."
                if self.every_position
                else "this model gives one label per sequence; give it facts with one target."
            )

    def leads(self, inputs: Inputs, targets: Any) -> Leads:
        self.check(inputs, targets)
        said = np.asarray(self._run(*inputs), dtype=np.float64)
        error = np.abs(said - self._wanted(np.asarray(targets)))
        if self.advance is not None:
            self.advance(len(said))
        return 0.5 - np.where(np.isfinite(error), error, np.inf), self._ids(said)

    def _wanted(self, targets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The number of every target; -2 for a target that no label stands for, which no network can give."""
        if self.labels is None:
            return targets
        spelled = np.array(self.labels, dtype=np.int64)
        order = np.argsort(spelled)
        at = np.minimum(np.searchsorted(spelled[order], targets), len(order) - 1)
        return np.where(spelled[order][at] == targets, order[at], -2)

    def _ids(self, said: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """What the numbers stand for; -1 where one is no label."""
        n = 1 << 53 if self.labels is None else len(self.labels)
        fits = (said >= 0) & (said < n) & (said == np.floor(said))
        numbers = np.where(fits, said, 0).astype(np.int64)
        return np.where(fits, numbers if self.labels is None else np.array(self.labels)[numbers], -1)


class Worse(Outputs):
    """Two forward passes of one model that must both give the answer: of each fact the worse lead counts."""

    def __init__(self, one: Outputs, other: Outputs) -> None:
        self._one, self._other = one, other
        self.gives, self.takes, self.rows_at_once = one.gives, one.takes, min(one.rows_at_once, other.rows_at_once)

    def leads(self, inputs: Inputs, targets: Any) -> Leads:
        (lead, said), (again, also) = self._one.leads(inputs, targets), self._other.leads(inputs, targets)
        self.evaluator = self._one.evaluator
        return np.where(again < lead, again, lead), np.where(again < lead, also, said)
