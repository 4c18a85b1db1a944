"""Weights that do not fit a module are refused by name."""

from __future__ import annotations

import pytest
import torch

from rote.config import Architecture
from rote.errors import CheckpointError, ShapeError
from rote.models.kinds.transformer import Transformer


def test_wrong_weights_are_refused_by_name() -> None:
    arch = Architecture(2, 4, 2, 3, 5)
    good = {name: torch.zeros(shape) for name, shape in Transformer.shapes(arch).items()}
    with pytest.raises(CheckpointError, match="W_O"):
        Transformer(arch, {k: v for k, v in good.items() if k != "W_O"})
    with pytest.raises(CheckpointError, match="W_V has shape"):
        Transformer(arch, {**good, "W_V": torch.zeros(2, 3, 4)})
    with pytest.raises(CheckpointError, match="'extra'"):
        Transformer(arch, {**good, "extra": torch.zeros(1)})
    with pytest.raises(ShapeError, match="3 tokens"):
        Transformer(arch, good)(torch.zeros(2, 4, dtype=torch.int64))
