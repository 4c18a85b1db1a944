"""Exact networks as plain arrays, for safetensors: places of the non-zero weights, and their digits in base 256.

For a network called p: `p.widths` (neurons of the input and of every layer), `p.relu` (one flag a layer), `p.entries`
(where each layer's weights begin), `p.rows`, `p.cols` (-1 is the bias) and `p.shifts` (f of p / 2^f), `p.limbs` (the
numerators in two's complement, lowest byte first) and `p.lengths` (bytes of each).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.errors import CheckpointError
from rote.solvers.exact.network import BIAS, Layer, Network

__all__ = ["from_arrays", "to_arrays"]

Array = npt.NDArray[Any]


def to_arrays(name: str, network: Network) -> dict[str, Array]:
    """The arrays of a network."""
    layers = network.layers
    numerators = [p for layer in layers for p in layer.numerators]
    lengths = [p.bit_length() // 8 + 1 for p in numerators]
    limbs = b"".join(p.to_bytes(size, "little", signed=True) for p, size in zip(numerators, lengths, strict=True))
    arrays: dict[str, Array] = {
        "widths": np.array([layers[0].n_in, *(layer.n_out for layer in layers)], dtype=np.int64),
        "relu": np.array([layer.relu for layer in layers], dtype=np.uint8),
        "entries": np.cumsum([0, *(layer.params for layer in layers)], dtype=np.int64),
        "rows": np.concatenate([layer.rows for layer in layers]).astype(np.int32),
        "cols": np.concatenate([layer.cols for layer in layers]).astype(np.int32),
        "shifts": np.concatenate([layer.shifts for layer in layers]).astype(np.int32),
        "lengths": np.array(lengths, dtype=np.int32),
        "limbs": np.frombuffer(limbs, dtype=np.uint8).copy(),
    }
    return {f"{name}.{key}": value for key, value in arrays.items()}


def from_arrays(name: str, arrays: Mapping[str, Array]) -> Network:
    """The network back; arrays that do not belong together are refused."""
    try:
        part = {
            key: np.asarray(arrays[f"{name}.{key}"])
            for key in ("widths", "relu", "entries", "rows", "cols", "shifts", "lengths", "limbs")
        }
    except KeyError as error:
        raise CheckpointError(f"the model has no tensor {error.args[0]!r}; the file is foreign or damaged.") from None
    _check(name, part)
    widths, bounds = part["widths"].tolist(), part["entries"].tolist()
    limbs, ends = part["limbs"].astype(np.uint8).tobytes(), np.cumsum(part["lengths"]).tolist()
    starts = [0, *ends[:-1]]
    numerators = [int.from_bytes(limbs[a:b], "little", signed=True) for a, b in zip(starts, ends, strict=True)]
    layers = []
    for at in range(len(widths) - 1):
        own = slice(bounds[at], bounds[at + 1])
        layers.append(
            Layer(
                widths[at],
                widths[at + 1],
                bool(part["relu"][at]),
                part["rows"][own].astype(np.int64),
                part["cols"][own].astype(np.int64),
                tuple(numerators[own]),
                part["shifts"][own].astype(np.int64),
            )
        )
    return Network(tuple(layers))


def _check(name: str, part: Mapping[str, Array]) -> None:
    widths, bounds = part["widths"], part["entries"]
    n_layers, n = len(widths) - 1, len(part["rows"])
    fits = (
        all(array.ndim == 1 and array.dtype.kind in "iu" for array in part.values())
        and n_layers >= 1
        and bool((widths >= 1).all())
        and len(part["relu"]) == n_layers
        and len(bounds) == n_layers + 1
        and int(bounds[0]) == 0
        and int(bounds[-1]) == n
        and bool((np.diff(bounds) >= 0).all())
        and all(len(part[key]) == n for key in ("cols", "shifts", "lengths"))
        and bool((part["lengths"] >= 1).all())
        and int(part["lengths"].sum()) == len(part["limbs"])
        and bool((part["shifts"] >= 0).all())
    )
    if fits:
        layer = np.repeat(np.arange(n_layers), np.diff(bounds))
        rows, cols = part["rows"].astype(np.int64), part["cols"].astype(np.int64)
        fits = bool(
            ((rows >= 0) & (rows < widths[layer + 1])).all() and ((cols >= BIAS) & (cols < widths[layer])).all()
        )
    if not fits:
        raise CheckpointError(f"the tensors of {name!r} do not belong together; the file is damaged, build it again.")
