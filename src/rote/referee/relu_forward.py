"""The referee's forward pass of a bit-extraction transformer in floats: sparse products, from the stored weights.

Inputs of the second network are taken in order, some at a time. In such a neighbourhood most neurons of a wide layer
cannot be positive, by bounds on their inputs that allow for rounding; behind ReLU these are 0, and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

if TYPE_CHECKING:
    from rote.referee.exact_format import Network, Transformer

__all__ = ["FLOATS", "relu_outputs"]

FLOATS: dict[str, Any] = {"float64": np.float64, "float32": np.float32}
_TOGETHER = 2048
"""Inputs that go through the second network together."""
_WIDE = 256
"""Layers with more neurons than this leave out those that are 0."""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _Affine:
    """y = W x + b, and ReLU or not."""

    matrix: Any
    bias: Array
    relu: bool
    sizes: Any
    """|W|, in float64."""

    @classmethod
    def of(cls, matrix: Any, bias: Array, relu: bool) -> _Affine:
        return cls(matrix, bias, relu, abs(matrix).astype(np.float64))

    def idle(self, x: Array) -> npt.NDArray[np.bool_]:
        """Neurons that are 0 for all columns of x, however their sums are rounded; others may be too."""
        low, high = (np.asarray(edge, dtype=np.float64) for edge in (x.min(axis=1), x.max(axis=1)))
        middle, reach = (low + high) / 2, (high - low) / 2
        bias = self.bias[:, 0].astype(np.float64)
        largest = self.sizes @ np.maximum(np.abs(low), np.abs(high)) + np.abs(bias)
        terms = np.diff(self.matrix.indptr) + 4
        rounded = 4 * terms * float(np.finfo(self.bias.dtype).eps) * largest
        most = self.matrix.astype(np.float64) @ middle + self.sizes @ reach + bias + rounded
        # What is not a number is not known to be 0.
        return np.asarray(most <= 0)


def relu_outputs(model: Transformer, contexts: npt.NDArray[np.int64], dtype: str) -> npt.NDArray[np.float64]:
    """Outputs (B,) or (B, S), every operation carried out in the number format."""
    number = FLOATS[dtype]
    # A network that was made for other numbers may overflow; what comes out then is no label.
    with np.errstate(over="ignore", invalid="ignore"):
        first, second = _layers(model.first, number), _layers(model.second, number)
        return _outputs(model, contexts, first, second, number).astype(np.float64)


def _layers(network: Network, number: Any) -> list[_Affine]:
    layers = []
    for layer in network.layers:
        values = np.array([_float(p, f) for _, _, p, f in layer.entries()], dtype=np.float64).astype(number)
        inner = layer.cols >= 0
        bias = np.zeros((layer.n_out, 1), dtype=number)
        bias[layer.rows[~inner], 0] = values[~inner]
        matrix = csr_matrix((values[inner], (layer.rows[inner], layer.cols[inner])), (layer.n_out, layer.n_in))
        layers.append(_Affine.of(matrix, bias, layer.relu))
    return layers


def _float(numerator: int, shift: int) -> float:
    try:
        return numerator / (1 << shift)
    except OverflowError:
        return np.inf if numerator > 0 else -np.inf


def _through(layers: list[_Affine], x: Array) -> Array:
    for layer in layers:
        x = layer.matrix @ x + layer.bias
        if layer.relu:
            x = np.maximum(x, 0)
    return x


def _in_order(layers: list[_Affine], x: Array) -> Array:
    """The same for many columns, some neighbours at a time."""
    out = np.empty((layers[-1].matrix.shape[0], x.shape[1]), dtype=x.dtype)
    order = np.argsort(x[0], kind="stable")
    for start in range(0, len(order), _TOGETHER):
        part = order[start : start + _TOGETHER]
        out[:, part] = _neighbours(layers, x[:, part])
    return out


def _neighbours(layers: list[_Affine], x: Array) -> Array:
    read: Array | None = None
    """The neurons before that are not left out; None for all."""
    for layer in layers:
        chosen = layer if read is None else _Affine.of(layer.matrix[:, read], layer.bias, layer.relu)
        read = None
        if layer.relu and len(layer.bias) > _WIDE:
            read = np.flatnonzero(~chosen.idle(x))
            chosen = _Affine(chosen.matrix[read], chosen.bias[read], True, None)
        x = _through([chosen], x)
    return x


def _outputs(
    model: Transformer, contexts: npt.NDArray[np.int64], first: Any, second: Any, number: Any
) -> npt.NDArray[Any]:
    b = len(contexts)
    null = np.full((b, model.padding), model.vocab, dtype=np.int64)
    tokens = np.concatenate([null, contexts], axis=1)
    n = tokens.shape[1]
    # Token-wise, so each token (at each position, where these count) is run once.
    distinct, index = np.unique(tokens + (model.vocab + 1) * np.arange(n) * model.with_positions, return_inverse=True)
    inputs = [distinct]
    if model.with_positions:
        inputs = [distinct % (model.vocab + 1), distinct // (model.vocab + 1)]
    numbers = _through(first, np.stack(inputs).astype(number))[:, index.reshape(-1)]
    weights = np.exp(np.zeros(n, dtype=number))
    weights = weights / weights.sum()
    W_V, W_O = (number(w) for w in model.attention)
    mean = ((numbers[0] * W_V).reshape(b, n) @ weights) * W_O
    if not model.every_position:
        labels: npt.NDArray[Any] = _in_order(second, mean[None, :])[0]
        return labels
    own = numbers[1].reshape(b, n)[:, model.padding :]
    spread = np.repeat(mean, model.context)
    every: npt.NDArray[Any] = _in_order(second, np.stack([spread, own.reshape(-1)]))[0].reshape(b, model.context)
    return every
