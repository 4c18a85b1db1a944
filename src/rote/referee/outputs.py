"""What forward passes say, in the forms that tables score: scores or values, and labels."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rote.data.outputs import Leads, Outputs
from rote.errors import UnknownName, UsageError
from rote.referee.forward import TORCH_DTYPES

if TYPE_CHECKING:
    from torch import nn

    from rote.data.table import Inputs

__all__ = ["Labels", "ModuleOutputs", "Scores", "Worse"]

Takes = Literal["tokens", "vectors", "anything"]
_READS = {
    "tokens": "this model reads tokens; give it a facts file, not vectors.",
    "vectors": "this model reads vectors; give it a .safetensors file of queries and contexts.",
}


def _check_reads(takes: str, inputs: Inputs) -> None:
    """Facts are (contexts,) of token ids, vectors (contexts, queries)."""
    if takes in _READS and takes != ("tokens" if len(inputs) == 1 else "vectors"):
        raise UsageError(_READS[takes])


class Scores(Outputs):
    """A model with an output (B, N) per context: a score for every token or class, or real numbers.

    A target is recalled if its score is strictly the largest.
    """

    gives = "one answer per context"

    def __init__(self, run: Callable[..., Any], *, takes: Takes = "anything", rows_at_once: int = 4096) -> None:
        self._run, self.takes, self.rows_at_once = run, takes, rows_at_once

    def said(self, inputs: Inputs) -> Tensor:
        """The outputs as they are."""
        _check_reads(self.takes, inputs)
        with torch.no_grad():
            said = self._run(*(torch.tensor(np.asarray(array)) for array in inputs))
        if not isinstance(said, Tensor):
            raise UsageError(
                f"a model must give a tensor with one row per context, this one gives a {type(said).__name__}; wrap it "
                "in a module that picks the logits after the last token."
            )
        return said

    def leads(self, inputs: Inputs, targets: Any) -> Leads:
        _check_reads(self.takes, inputs)
        goals = torch.tensor(np.asarray(targets))
        if goals.ndim != 1:
            raise UsageError("this model gives one answer per context; give it facts with one target.")
        scores, most = self.said(inputs), int(goals.max())
        if scores.ndim != 2 or len(scores) != len(goals) or most >= scores.shape[1]:
            raise UsageError(
                f"{len(goals)} contexts with targets up to {most} need outputs of shape ({len(goals)}, {most + 1}) or "
                f"wider, but the model gives {tuple(scores.shape)}; it was made for other facts."
            )
        own = scores.gather(1, goals[:, None])[:, 0].to(torch.float64)
        best, rival = scores.scatter(1, goals[:, None], float("-inf")).max(dim=1)
        return (own - best.to(torch.float64)).numpy(), rival.numpy()

    def values(self, inputs: Inputs) -> Tensor:
        _check_reads(self.takes, inputs)
        if self.takes == "tokens":
            raise self.refusal("real targets")
        return self.said(inputs)

    def scores(self, inputs: Inputs) -> Tensor:
        _check_reads(self.takes, inputs)
        if self.takes == "vectors":
            raise self.refusal("distributions")
        return self.said(inputs)


class ModuleOutputs(Scores):
    """A module's own forward pass, on a copy in a number format: the module itself stays as it is, to the bit.

    `forward` says how a copy is called; as it is, if not given. Real inputs are rounded to the number format.
    """

    def __init__(
        self, module: nn.Module, dtype: str, *, takes: Takes = "anything", forward: Callable[..., Any] | None = None
    ) -> None:
        if dtype not in TORCH_DTYPES:
            raise UnknownName("number format", dtype, TORCH_DTYPES)
        number = TORCH_DTYPES[dtype]
        typed = copy.deepcopy(module).to("cpu", number).eval()

        def run(*inputs: Tensor) -> Any:
            rounded = [x.to(number) if x.is_floating_point() else x for x in inputs]
            return typed(*rounded) if forward is None else forward(typed, *rounded)

        super().__init__(run, takes=takes)


class Labels(Outputs):
    """A model whose output is the number of the label itself: (B,), or (B, S) with one for every position.

    `spelled` says which token id each number stands for; None if the numbers are the classes of vectors. The lead is
    what the error leaves of 1/2, the distance at which another label is nearer.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        spelled: tuple[int, ...] | None,
        *,
        every_position: bool = False,
        rows_at_once: int = 1 << 62,
    ) -> None:
        self._run, self.spelled, self.every_position, self.rows_at_once = run, spelled, every_position, rows_at_once
        self.takes = "vectors" if spelled is None else "tokens"
        self.gives = "a label for every position" if every_position else "one label per sequence"

    def labels(self, inputs: Inputs) -> npt.NDArray[Any]:
        """The outputs as they are: numbers of labels, if all is well."""
        _check_reads(self.takes, inputs)
        return np.asarray(self._run(*inputs))

    def leads(self, inputs: Inputs, targets: Any) -> Leads:
        _check_reads(self.takes, inputs)
        if (np.ndim(targets) == 2) != self.every_position:
            raise UsageError(
                "this model labels every position; give it facts whose target is a sequence."
                if self.every_position
                else "this model gives one label per sequence; give it facts with one target."
            )
        said = self.labels(inputs).astype(np.float64)
        error = np.abs(said - self._wanted(np.asarray(targets)))
        return 0.5 - np.where(np.isfinite(error), error, np.inf), self._ids(said)

    def _wanted(self, targets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The number of every target; -2 for a target that no label stands for, which no network can give."""
        if self.spelled is None:
            return targets
        spelled = np.array(self.spelled, dtype=np.int64)
        order = np.argsort(spelled)
        at = np.minimum(np.searchsorted(spelled[order], targets), len(order) - 1)
        return np.where(spelled[order][at] == targets, order[at], -2)

    def _ids(self, said: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """What the numbers stand for; -1 where one is no label."""
        most = 1 << 53 if self.spelled is None else len(self.spelled)
        fits = (said >= 0) & (said < most) & (said == np.floor(said))
        numbers = np.where(fits, said, 0).astype(np.int64)
        return np.where(fits, numbers if self.spelled is None else np.array(self.spelled)[numbers], -1)


class Worse(Outputs):
    """Two forward passes of one model that must both give the answer: for every fact the worse lead counts."""

    def __init__(self, one: Outputs, other: Outputs) -> None:
        self._one, self._other = one, other
        self.gives, self.takes, self.rows_at_once = one.gives, one.takes, min(one.rows_at_once, other.rows_at_once)

    def leads(self, inputs: Inputs, targets: Any) -> Leads:
        (lead, said), (again, also) = self._one.leads(inputs, targets), self._other.leads(inputs, targets)
        worse = np.minimum(lead, again)
        return worse, np.where(worse == lead, said, also)
