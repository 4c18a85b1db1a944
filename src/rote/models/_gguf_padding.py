"""A wider stream for a GGUF file: types with blocks want rows of a multiple of 32 numbers.

More channels that are always zero change nothing but the mean that norms divide by, and their weights make up for it.
Neurons of zeros add nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["padded", "padded_config"]

_READING = ("embed_tokens", "lm_head", "q_proj", "k_proj", "v_proj")
_NORMS = ("input_layernorm", "post_attention_layernorm", "norm")


def padded_config(config: Mapping[str, Any], block: int) -> dict[str, Any]:
    """The configuration with sizes of the stream and of its layers that are multiples of `block`."""
    width, inner = int(config["hidden_size"]), int(config["intermediate_size"])
    wider = -(-width // block) * block
    return {
        **config,
        "hidden_size": wider,
        "head_dim": int(config.get("head_dim") or width // int(config["num_attention_heads"])),
        "intermediate_size": -(-inner // block) * block,
        "rms_norm_eps": float(config["rms_norm_eps"]) * width / wider,
    }


def padded(
    tensors: Iterable[tuple[str, Any]], config: Mapping[str, Any], wider: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Tensors of a model with one configuration for another that `padded_config` made of it."""
    (width, inner), (to_width, to_inner) = (
        (int(one["hidden_size"]), int(one["intermediate_size"])) for one in (config, wider)
    )
    larger = {"stream": to_width - width, "inner": to_inner - inner}
    for name, array in tensors:
        part = name.rsplit(".", 2)[-2]
        wide = np.pad(array, [(0, larger[axis] if axis else 0) for axis in _axes(part, array.ndim)])
        if part in _NORMS:
            wide = (wide.astype(np.float64) * math.sqrt(width / to_width)).astype(np.float32)
        yield name, wide


def _axes(part: str, dimensions: int) -> tuple[str, ...]:
    """What the axes of a tensor are: the stream, the inside of a layer, or neither."""
    if part in _NORMS:
        return ("stream",)
    if part in _READING:
        return ("", "stream")[:dimensions]
    if part in ("gate_proj", "up_proj"):
        return ("inner", "stream")[:dimensions]
    if part == "down_proj":
        return ("stream", "inner")[:dimensions]
    if part == "o_proj":
        return ("stream", "")[:dimensions]
    return ("",) * dimensions
