"""The judge of bit-extraction transformers: exact arithmetic, or the floats that the network was made for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from rote.errors import UsageError
from rote.referee._base import Judge, Stored
from rote.referee.exact_format import Transformer, read_transformer
from rote.referee.exact_transformer import Shortcut, token_labels, vector_labels
from rote.referee.outputs import Labels, ModuleOutputs

__all__ = ["judge"]

_ROWS_AT_ONCE = 1 << 17
"""The more, the closer together are those that a module runs at a time."""


class ExactTransformerJudge(Judge):
    dtypes = ("exact", "float64", "float32")

    def outputs(self, stored: Stored, dtype: str, shortcut: Callable[..., Any] | None) -> Labels:
        model = read_transformer(stored)
        if dtype != "exact" and model.d_in:
            raise UsageError("a network for vectors is exact; leave out the number format, or say exact.")
        return _Answers(model, dtype, shortcut)

    def no_use_for(self, dtype: str) -> str:
        return f"bit extraction has no use for {dtype}, which rounds its weights; use exact or float64."

    def doubts(self, stored: Stored, dtype: str) -> bool:
        """In the floats that it was made for, the module's forward pass must give the labels too."""
        return dtype != "exact" and stored.config.get("precision") == dtype

    def module_outputs(self, stored: Stored, module: nn.Module, dtype: str) -> Labels:
        model, said = read_transformer(stored), ModuleOutputs(module, dtype).said
        rows = max(1, _ROWS_AT_ONCE // model.positions_seen)
        return Labels(
            lambda *inputs: said(inputs), model.labels, every_position=model.every_position, rows_at_once=rows
        )


class _Answers(Labels):
    def __init__(self, model: Transformer, dtype: str, shortcut: Shortcut | None) -> None:
        super().__init__(self._run, None if model.d_in else model.labels, every_position=model.every_position)
        self._model, self._dtype, self._shortcut = model, dtype, shortcut

    def _run(self, *inputs: Any) -> Any:
        from rote.referee.relu_forward import relu_outputs

        model = self._model
        if model.d_in:
            labels, self.evaluator = vector_labels(model, _sequences(model, *inputs), self._shortcut)
            return labels
        (contexts,) = inputs
        if contexts.shape[1] != model.context:
            raise UsageError(
                f"this model reads contexts of {model.context} tokens, these facts have {contexts.shape[1]}."
            )
        if self._dtype != "exact":
            return relu_outputs(model, contexts, self._dtype)
        labels, self.evaluator = token_labels(model, contexts, self._shortcut)
        return labels


def _sequences(model: Transformer, contexts: Any, queries: Any) -> Any:
    """Sequences (B, n + 1, d): the context's vectors, and the query as the last token."""
    n, d = contexts.shape[-2:]
    if (d, n + 1) != (model.d_in, model.context):
        raise UsageError(
            f"this model reads {model.context - 1} context vectors of width {model.d_in}; these are {n} of width {d}."
        )
    rows = np.broadcast_to(contexts, (len(queries), n, d))
    # Adding 0 makes -0.0 and 0.0 one token.
    return np.concatenate([rows, queries[:, None, :]], axis=1) + 0.0


judge = ExactTransformerJudge()
