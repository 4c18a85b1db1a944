"""The judge of the reference transformer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rote.data.outputs import Outputs
from rote.errors import CheckpointError, UsageError
from rote.referee._base import Judge, Stored

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["judge"]

_NAMES = ("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_O")
_MLP = ("W_gate", "W_up", "W_down")


class TransformerJudge(Judge):
    def outputs(self, stored: Stored, dtype: str, shortcut: Callable[..., Any] | None) -> Outputs:
        from rote.referee.forward import TORCH_DTYPES, rows_at_once, token_logits
        from rote.referee.outputs import Scores

        number, activation = TORCH_DTYPES[dtype], stored.config.get("activation", "identity")
        if activation not in ("identity", "silu"):
            raise CheckpointError(f"config.json names an unknown activation {str(activation)[:40]!r}; it was edited.")
        names = (*_NAMES, *(_MLP if any(name in stored.tensors for name in _MLP) else ()))
        weights = {name: stored.tensor(name).detach().to(number) for name in names}
        weights["W_U"] = _head(stored).to(number)
        vocab, length = len(weights["W_E"]), len(weights["W_pos"])

        def logits(contexts: Tensor) -> Tensor:
            if contexts.shape[1] != length:
                raise UsageError(f"this model reads contexts of {length} tokens, these facts have {contexts.shape[1]}.")
            if int(contexts.max()) >= vocab:
                raise UsageError(f"this model knows {vocab:,} tokens, these facts have more; it was made for others.")
            return token_logits(weights, contexts, number, activation)

        return Scores(logits, takes="tokens", rows_at_once=rows_at_once(weights, length))


def _head(stored: Stored) -> Tensor:
    """The rows that streams are read out by; where they are shared with the embedding, all but those named."""
    shape = stored.config.get("architecture")
    count = shape.get("own_rows") if isinstance(shape, Mapping) else None
    if count is None:
        return stored.tensor("W_U").detach()
    rows, own = stored.tensor("W_E").detach().clone(), stored.config.get("own", [])
    if not isinstance(own, list) or len(own) != count or not all(type(i) is int and 0 <= i < len(rows) for i in own):
        raise CheckpointError("config.json does not name the tokens of the head's rows; it was edited.")
    for row, token in enumerate(own):
        rows[token] = stored.tensor("W_U")[row]
    return rows


judge = TransformerJudge()
