"""The referee's forward pass of a bit-extraction transformer in floats: sparse products, from the stored weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

if TYPE_CHECKING:
    from rote.referee.exact_format import Network, Transformer

__all__ = ["FLOATS", "relu_outputs"]

FLOATS: dict[str, Any] = {"float64": np.float64, "float32": np.float32}
_NUMBERS_AT_ONCE = 8_000_000


def relu_outputs(model: Transformer, contexts: npt.NDArray[np.int64], dtype: str) -> npt.NDArray[np.float64]:
    """Outputs (B,) or (B, S), every operation carried out in the number format."""
    number = FLOATS[dtype]
    with np.errstate(over="ignore"):
        first, second = _matrices(model.first, number), _matrices(model.second, number)
    rows = max(1, _NUMBERS_AT_ONCE // (model.width * model.positions_seen))
    # A network that was made for other numbers may overflow; what comes out then is no label.
    with np.errstate(over="ignore", invalid="ignore"):
        parts = [_outputs(model, contexts[i : i + rows], first, second, number) for i in range(0, len(contexts), rows)]
    return np.concatenate(parts).astype(np.float64)


def _matrices(network: Network, number: Any) -> list[tuple[Any, npt.NDArray[Any], bool]]:
    layers = []
    for layer in network.layers:
        values = np.array([_float(p, f) for _, _, p, f in layer.entries()], dtype=np.float64).astype(number)
        inner = layer.cols >= 0
        bias = np.zeros((layer.n_out, 1), dtype=number)
        bias[layer.rows[~inner], 0] = values[~inner]
        matrix = csr_matrix((values[inner], (layer.rows[inner], layer.cols[inner])), (layer.n_out, layer.n_in))
        layers.append((matrix, bias, layer.relu))
    return layers


def _float(numerator: int, shift: int) -> float:
    try:
        return numerator / (1 << shift)
    except OverflowError:
        return np.inf if numerator > 0 else -np.inf


def _through(layers: list[tuple[Any, npt.NDArray[Any], bool]], x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    for matrix, bias, relu in layers:
        x = matrix @ x + bias
        if relu:
            x = np.maximum(x, 0)
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
        labels: npt.NDArray[Any] = _through(second, mean[None, :])[0]
        return labels
    own = numbers[1].reshape(b, n)[:, model.padding :]
    spread = np.repeat(mean, model.context)
    every: npt.NDArray[Any] = _through(second, np.stack([spread, own.reshape(-1)]))[0].reshape(b, model.context)
    return every
