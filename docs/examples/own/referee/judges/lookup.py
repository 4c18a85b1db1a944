"""The judge of look-up tables (worked example of docs/adding-a-construction.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rote.data.outputs import Outputs
from rote.referee import Judge, Stored

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["judge"]


class LookupJudge(Judge):
    def outputs(self, stored: Stored, dtype: str, shortcut: Callable[..., Any] | None) -> Outputs:
        import torch

        from rote.referee import Scores

        rows = stored.tensor("rows").to(getattr(torch, dtype))

        def scores(contexts: Tensor) -> Tensor:
            return torch.stack([rows[context[-1]] for context in contexts])

        return Scores(scores, takes="tokens")


judge = LookupJudge()
