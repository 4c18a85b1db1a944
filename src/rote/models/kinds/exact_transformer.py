"""An exact transformer as a torch module: token ids in, labels out, in exact arithmetic inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from rote.referee.exact_transformer import token_outputs
from rote.solvers.exact.grouped import grouped_labels

if TYPE_CHECKING:
    from rote.solvers.exact.transformer import ExactTransformer

__all__ = ["ExactModule"]


class ExactModule(nn.Module):
    """It has no parameters that torch knows: its weights have too many bits for any number format."""

    def __init__(self, exact: ExactTransformer) -> None:
        super().__init__()
        self.exact = exact

    def forward(self, contexts: Tensor) -> Tensor:
        """Labels (B,) or (B, S) of contexts (B, S); -1 where the network gives none."""
        found = token_outputs(self.exact, contexts.numpy(), fast=grouped_labels)
        return torch.from_numpy(found.labels)
