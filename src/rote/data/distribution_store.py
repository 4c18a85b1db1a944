"""A distribution table as bytes: safetensors with the probabilities that are not zero, row after row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rote.data._arrays import FloatArray, IntArray
from rote.data.contents import contents
from rote.errors import CheckpointError

if TYPE_CHECKING:
    from rote.data.kinds.distributions import DistributionTable

__all__ = ["FILE", "pack", "unpack"]

FILE = "distributions.safetensors"


def pack(table: DistributionTable) -> bytes:
    """The table without its vocabulary."""
    from safetensors.numpy import save

    row, token = np.nonzero(table.probabilities)
    return save(
        {
            "contexts": table.contexts.copy(),
            "prior": table.prior.copy(),
            "row": row.astype(np.int64),
            "token": token.astype(np.int64),
            "probability": np.ascontiguousarray(table.probabilities[row, token]),
        }
    )


def unpack(path: Path, vocab: int) -> tuple[IntArray, FloatArray, FloatArray]:
    """Contexts, prior and probabilities."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not path.exists():
        raise CheckpointError(f"{path.parent} has no {path.name}; build the model again.")
    try:
        parts = load(contents(path, refuse=CheckpointError))
        rows = np.zeros((len(parts["contexts"]), vocab))
        rows[parts["row"], parts["token"]] = parts["probability"]
    except (SafetensorError, KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({error}); the file was damaged, build the model again."
        ) from None
    return parts["contexts"], parts["prior"], rows
