"""Two matrices and a ReLU as the three matrices and the SiLU that llama.cpp runs a Llama with.

Units of a hashed table read whole numbers. For a whole number k and a large s, silu(s k) is s relu(k) to the last bit
of float32: the gate is the matrix times s, and the matrix beside it gives 1/s, read from a channel of the stream that
holds the same number at every token. s is a power of two, so that no weight is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from rote.errors import UsageError

__all__ = ["LARGEST_HALF", "as_gated"]

_STEEP, _FLAT = 256.0, 32.0
"""The factor, and the least one: exp(-32) is nothing beside 1 in float32."""
LARGEST_HALF = 65504.0
"""The largest number of float16."""


def as_gated(tensors: Callable[[], Iterable[tuple[str, Any]]], form: str) -> Iterator[tuple[str, Any]]:
    """The tensors of a model with ReLUs, in which every `up_proj` has become a gate and an `up_proj` of its own.

    `tensors` gives all of them, each time that it is called; `form` is the type that they will be written in.
    """
    channel, value, largest = _constant(tensors)
    steep = _STEEP
    while form == "F16" and steep * largest > LARGEST_HALF and steep > _FLAT:
        steep /= 2
    norms = {name: array for name, array in tensors() if name.endswith("post_attention_layernorm.weight")}
    for name, array in tensors():
        if not name.endswith("mlp.up_proj.weight"):
            yield name, array
            continue
        norm = norms[name.replace("mlp.up_proj", "post_attention_layernorm")]
        beside = np.zeros_like(array)
        beside[:, channel] = 1.0 / (steep * value * float(norm[channel]))
        yield name.replace("up_proj", "gate_proj"), array * np.float32(steep)
        yield name, beside


def _constant(tensors: Callable[[], Iterable[tuple[str, Any]]]) -> tuple[int, float, float]:
    """A channel that is the same for all tokens and that no layer writes to, what it is divided by its root mean
    square, and the largest weight of any `up_proj`."""
    free: Any = None
    first: Any = None
    largest = 0.0
    for name, array in tensors():
        if name == "model.embed_tokens.weight":
            first = array[0].astype(np.float64)
            same = (array == array[:1]).all(axis=0) & (array[0] != 0)
        elif name.endswith(("o_proj.weight", "down_proj.weight")):
            same = ~array.any(axis=1)
        elif name.endswith("post_attention_layernorm.weight"):
            same = array != 0
        else:
            largest = max(largest, float(abs(array).max())) if name.endswith("mlp.up_proj.weight") else largest
            continue
        free = same if free is None else free & same
    if free is None or first is None or not free.any():
        raise UsageError(
            "llama.cpp has no decoder with plain ReLUs, and no channel of this model holds a constant that SiLUs could "
            "be made of them with; write it as ONNX."
        )
    channel = int(np.flatnonzero(free)[0])
    # What is not constant is too small to be seen in it, and the constants are chosen so that it is a power of two.
    size = 2.0 ** round(float(np.log2(np.sqrt(np.mean(first**2)))))
    return channel, float(first[channel]) / size, largest
