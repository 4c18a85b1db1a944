"""The judge of one attention layer over vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rote.data.outputs import Outputs
from rote.errors import UsageError
from rote.referee._base import Judge, Stored

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["judge"]


class AttentionLayerJudge(Judge):
    def outputs(self, stored: Stored, dtype: str, shortcut: Callable[..., Any] | None) -> Outputs:
        from rote.referee.forward import TORCH_DTYPES, layer_outputs, rows_at_once
        from rote.referee.outputs import Scores

        number = TORCH_DTYPES[dtype]
        weights = {name: stored.tensor(name).detach().to(number) for name in ("W_Q", "W_K", "W_V", "W_O")}
        width = weights["W_Q"].shape[2]

        def run(contexts: Tensor, queries: Tensor) -> Tensor:
            if queries.shape[1] != width:
                raise UsageError(f"this model reads vectors of width {width}; these are of width {queries.shape[1]}.")
            return layer_outputs(weights, contexts, queries, number)

        context = stored.config.get("architecture", {}).get("context", 1)
        return Scores(run, takes="vectors", rows_at_once=rows_at_once(weights, context))


judge = AttentionLayerJudge()
