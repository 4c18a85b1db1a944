"""An exact transformer as tensors and a configuration, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.errors import CheckpointError
from rote.exact.digits import DigitShape
from rote.exact.storage import from_arrays, to_arrays
from rote.exact.transformer import ExactTransformer

__all__ = ["read_transformer", "transformer_arrays"]


def transformer_arrays(model: ExactTransformer) -> dict[str, npt.NDArray[Any]]:
    """Every weight, ready for safetensors."""
    return {
        **to_arrays("first", model.first),
        "attention.W_V": np.array([[model.attention[0]]], dtype=np.int64),
        "attention.W_O": np.array([[model.attention[1]]], dtype=np.int64),
        **to_arrays("second", model.second),
    }


def read_transformer(config: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> ExactTransformer:
    """The transformer from what was stored; what does not fit together is refused."""
    first, second = from_arrays("first", arrays), from_arrays("second", arrays)
    try:
        attention = (int(arrays["attention.W_V"].item()), int(arrays["attention.W_O"].item()))
        shape = config["digits"]
        model = ExactTransformer(
            config["task"],
            first,
            second,
            int(config["context"]),
            int(config["positions_seen"]),
            int(config["vocab"]),
            tuple(int(label) for label in config["labels"]),
            config["precision"],
            config["variant"],
            bool(config["with_positions"]),
            attention,
            int(config["d_in"]),
            None if shape is None else DigitShape(**shape),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"config.json does not describe an exact transformer ({error}); build it again."
        ) from None
    inputs = model.d_in or (2 if model.with_positions else 1)
    outputs = 1 if model.task == "next_token" else 2
    if (first.n_in, first.n_out, second.n_in, second.n_out) != (inputs, outputs, outputs, 1):
        raise CheckpointError("the two networks of the model do not fit together; the file is damaged, build it again.")
    if model.task not in ("next_token", "seq2seq") or model.padding < 0 or model.context < 1:
        raise CheckpointError("config.json does not describe an exact transformer; build it again.")
    return model
