"""A distribution table as bytes: safetensors with the probabilities that are not zero, row after row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from rote.data.distribution import DistributionTable
from rote.data.vocabulary import Vocabulary
from rote.errors import CheckpointError

__all__ = ["FILE", "pack", "unpack"]

FILE = "distributions.safetensors"


def pack(table: DistributionTable) -> bytes:
    """The table without its vocabulary, which the tokenizer has."""
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


def unpack(path: Path, vocabulary: tuple[str, ...], smoothing: float, name: str) -> DistributionTable:
    """The table of a model directory, smoothed as it was for building."""
    try:
        parts = load(path.read_bytes())
        rows = np.zeros((len(parts["contexts"]), len(vocabulary)))
        rows[parts["row"], parts["token"]] = parts["probability"]
        table = DistributionTable(parts["contexts"], parts["prior"], rows, Vocabulary(vocabulary), name)
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} has no {path.name}; build the model again.") from None
    except (SafetensorError, KeyError, IndexError, ValueError, OSError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({error}); the file was damaged, build the model again."
        ) from None
    return table.smoothed(smoothing)
