"""An exact transformer as tensors and a configuration, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.config import LARGEST
from rote.errors import CheckpointError
from rote.solvers.exact.digits import DigitShape
from rote.solvers.exact.storage import from_arrays, to_arrays
from rote.solvers.exact.transformer import UNKNOWN, ExactTransformer

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
            _one_of(config, "task", ("next_token", "seq2seq")),
            first,
            second,
            _number(config, "context", 1),
            _number(config, "positions_seen", 1),
            _number(config, "vocab", 1),
            _labels(config["labels"]),
            _one_of(config, "precision", ("exact", "float64", "float32")),
            _one_of(config, "variant", ("A", "B", "C")),
            bool(config["with_positions"]),
            attention,
            _number(config, "d_in", 0),
            None if shape is None else DigitShape(**shape),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"config.json does not describe an exact transformer ({error}); the file was edited, build it again."
        ) from None
    inputs = model.d_in or (2 if model.with_positions else 1)
    outputs = 1 if model.task == "next_token" else 2
    if (first.n_in, first.n_out, second.n_in, second.n_out) != (inputs, outputs, outputs, 1):
        raise CheckpointError("the two networks of the model do not fit together; the file is damaged, build it again.")
    seen = (model.context, 1 << (model.context - 1).bit_length())
    if model.positions_seen not in seen or max(model.labels) >= model.vocab:
        raise CheckpointError("config.json contradicts itself; the file was edited, build it again.")
    return model


def _number(config: Mapping[str, Any], key: str, least: int) -> int:
    value = config[key]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
        raise ValueError(f"{key} is {str(value)[:40]}")
    return value


def _labels(given: Any) -> tuple[int, ...]:
    if not isinstance(given, list) or not given:
        raise ValueError("labels must be a list")
    answers = given[1:] if given[0] == UNKNOWN and len(given) > 1 else given
    if any(isinstance(label, bool) or not isinstance(label, int) or not 0 <= label <= LARGEST for label in answers):
        raise ValueError("labels must be token ids")
    return tuple(given)


def _one_of(config: Mapping[str, Any], key: str, known: tuple[Any, ...]) -> Any:
    if not isinstance(config[key], str) or config[key] not in known:
        raise ValueError(f"{key} is {str(config[key])[:40]}")
    return config[key]
