"""One attention layer on real vectors: its weights, its forward pass, and the linear solve of its readout.

The layer of Mahdavi et al. 2024, without score scaling: for an example with context rows E (n x d) and query e,

    a_h = softmax(E W_K^hT W_Q^h e)      z_h = E^T a_h      prediction = sum_h W_O^h W_V^h z_h.

Both constructions for VectorTables (`saturation`, `random_features`) choose W_Q and W_K first and then solve a linear
system for the readout; what they share lives here. NumPy arrays in and out, PyTorch inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from rote.data._arrays import FloatArray as Array
from rote.errors import DataError

__all__ = [
    "LayerWeights",
    "MinNorm",
    "Precision",
    "as_examples",
    "as_targets",
    "attention",
    "features",
    "predict",
    "readout_weights",
]

RealArray = npt.NDArray[np.floating]
Precision = Literal["float64", "float32"]

_TORCH = {"float64": torch.float64, "float32": torch.float32}
_CHUNK_NUMBERS = 8_000_000  # the largest temporary of a forward pass, in numbers (64 MB in float64)


@dataclass(frozen=True)
class LayerWeights:
    """W_Q, W_K (H, d_head, d); W_V (H, d_v, d); W_O (H, k, d_v)."""

    W_Q: RealArray
    W_K: RealArray
    W_V: RealArray
    W_O: RealArray

    def astype(self, precision: Precision) -> LayerWeights:
        kind = np.dtype(precision)
        return LayerWeights(*(np.asarray(w, dtype=kind) for w in (self.W_Q, self.W_K, self.W_V, self.W_O)))


def as_examples(contexts: npt.ArrayLike, queries: npt.ArrayLike) -> tuple[Array, Array, bool]:
    """Contexts (T, n, d) or (n, d), queries (T, d), and whether the context is shared; refuses what is malformed."""
    c = np.ascontiguousarray(contexts, dtype=np.float64)
    q = np.ascontiguousarray(queries, dtype=np.float64)
    if q.ndim != 2 or c.ndim not in (2, 3):
        raise DataError(f"need queries (T, d) and contexts (T, n, d) or (n, d); got {q.shape} and {c.shape}.")
    if q.shape[0] == 0 or c.shape[-2] == 0:
        raise DataError(f"need at least one example and one context row; got queries {q.shape}, contexts {c.shape}.")
    if c.shape[-1] != q.shape[1] or (c.ndim == 3 and c.shape[0] != q.shape[0]):
        raise DataError(f"contexts {c.shape} and queries {q.shape} disagree in T or d.")
    for name, rows in (("query", q), ("context", c.reshape(c.shape[0], -1))):
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if bad.size:
            raise DataError(f"vectors must be finite; {name} {bad[0]} is not ({bad.size} in all). Remove it.")
    return c, q, c.ndim == 2


def as_targets(targets: npt.ArrayLike, n_examples: int, n_classes: int | None) -> Array:
    """Targets as (T, k) reals; they are labels, and become one-hot, if n_classes asks for classification."""
    raw = np.asarray(targets)
    if n_classes is None:
        y = np.asarray(raw, dtype=np.float64)
        y = y[:, None] if y.ndim == 1 else y
        if y.ndim != 2 or y.shape[0] != n_examples or y.shape[1] == 0:
            raise DataError(f"need targets ({n_examples},) or ({n_examples}, k); got {raw.shape}.")
        bad = np.flatnonzero(~np.isfinite(y).all(axis=1))
        if bad.size:
            raise DataError(f"targets must be finite; target {bad[0]} is not ({bad.size} in all).")
        return y
    if raw.shape != (n_examples,) or not np.issubdtype(raw.dtype, np.integer):
        raise DataError(f"with n_classes, targets are ({n_examples},) integers; got {raw.dtype} {raw.shape}.")
    labels = raw.astype(np.int64)
    bad = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if bad.size:
        first = f"label {bad[0]} is {labels[bad[0]]}"
        raise DataError(f"labels must lie in 0..{n_classes - 1}; {first} ({bad.size} in all).")
    return np.eye(n_classes)[labels]


def _chunks(n_examples: int, numbers_each: int) -> Iterator[slice]:
    step = max(1, _CHUNK_NUMBERS // max(1, numbers_each))
    for start in range(0, n_examples, step):
        yield slice(start, min(start + step, n_examples))


class _Forward:
    """The layer's forward pass in one precision, a chunk of examples at a time."""

    def __init__(self, contexts: Array, queries: Array, W_Q: RealArray, W_K: RealArray, precision: Precision) -> None:
        kind = _TORCH[precision]
        self.contexts = torch.from_numpy(contexts).to(kind)
        self.queries = torch.from_numpy(queries).to(kind)
        self.W_Q = torch.from_numpy(np.ascontiguousarray(W_Q)).to(kind)
        self.W_K = torch.from_numpy(np.ascontiguousarray(W_K)).to(kind)
        self.shared = contexts.ndim == 2
        self.n_heads, self.d_head, self.d = W_Q.shape
        self.n = contexts.shape[-2]
        self.keys = self._keys(self.contexts) if self.shared else None

    def chunks(self) -> Iterator[slice]:
        return _chunks(self.queries.shape[0], self.n_heads * max(self.n, self.d, self.d_head))

    def _keys(self, rows: torch.Tensor) -> torch.Tensor:
        flat = rows.reshape(-1, self.d) @ self.W_K.reshape(-1, self.d).T
        return flat.reshape(*rows.shape[:-1], self.n_heads, self.d_head)

    def attention(self, part: slice) -> torch.Tensor:
        q = (self.queries[part] @ self.W_Q.reshape(-1, self.d).T).reshape(-1, self.n_heads, self.d_head)
        if self.keys is not None:  # (H, T, d_h) @ (H, d_h, n)
            scores = torch.bmm(q.transpose(0, 1), self.keys.permute(1, 2, 0)).transpose(0, 1)
        else:
            rows = self.contexts[part]
            scores = torch.empty((len(rows), self.n_heads, self.n), dtype=rows.dtype)
            for head in range(self.n_heads):
                keys = rows.reshape(-1, self.d) @ self.W_K[head].T
                scores[:, head] = torch.bmm(keys.view(-1, self.n, self.d_head), q[:, head, :, None])[:, :, 0]
        return torch.softmax(scores, dim=-1)

    def mix(self, part: slice, weights: torch.Tensor) -> torch.Tensor:
        return torch.matmul(weights, self.contexts if self.shared else self.contexts[part])

    def features(self, part: slice) -> torch.Tensor:
        return self.mix(part, self.attention(part))


def attention(
    contexts: Array, queries: Array, W_Q: RealArray, W_K: RealArray, precision: Precision = "float64"
) -> Iterator[tuple[slice, RealArray]]:
    """The attention weights (t, H, n), a chunk of examples at a time with the slice it covers."""
    forward = _Forward(contexts, queries, W_Q, W_K, precision)
    for part in forward.chunks():
        yield part, forward.attention(part).numpy()


def features(
    contexts: Array,
    queries: Array,
    W_Q: RealArray,
    W_K: RealArray,
    precision: Precision = "float64",
    *,
    watch: Callable[[slice, RealArray], None] | None = None,
) -> RealArray:
    """The head outputs before W_V: Z (T, H, d), computed in that precision; `watch` is shown the attention weights."""
    forward = _Forward(contexts, queries, W_Q, W_K, precision)
    out = torch.empty((queries.shape[0], forward.n_heads, forward.d), dtype=_TORCH[precision])
    for part in forward.chunks():
        weights = forward.attention(part)
        if watch is not None:
            watch(part, weights.numpy())
        out[part] = forward.mix(part, weights)
    result: RealArray = out.numpy()
    return result


def _read_out(Z: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor) -> RealArray:
    n_heads, k, d_v = W_O.shape
    values = torch.bmm(Z.transpose(0, 1), W_V.transpose(1, 2))  # (H, T, d_v)
    stacked = values.transpose(0, 1).reshape(len(Z), n_heads * d_v)
    result: RealArray = (stacked @ W_O.transpose(1, 2).reshape(n_heads * d_v, k)).numpy()
    return result


def predict(weights: LayerWeights, contexts: Array, queries: Array, precision: Precision = "float64") -> RealArray:
    """The whole forward pass in that precision: (T, k)."""
    forward = _Forward(contexts, queries, weights.W_Q, weights.W_K, precision)
    W_V = torch.from_numpy(np.ascontiguousarray(weights.W_V)).to(_TORCH[precision])
    W_O = torch.from_numpy(np.ascontiguousarray(weights.W_O)).to(_TORCH[precision])
    return np.concatenate([_read_out(forward.features(part), W_V, W_O) for part in forward.chunks()])


def readout_weights(readout: Array) -> tuple[Array, Array]:
    """W_V and W_O with W_O^h W_V^h = readout[h]^T, for a readout (H, d, k): d_v = min(d, k)."""
    n_heads, d, k = readout.shape
    transposed = np.ascontiguousarray(readout.transpose(0, 2, 1))
    if k <= d:
        return transposed, np.broadcast_to(np.eye(k), (n_heads, k, k)).copy()
    return np.broadcast_to(np.eye(d), (n_heads, d, d)).copy(), transposed


def _extreme_singular_values(R: torch.Tensor) -> tuple[float, float]:
    """Largest and smallest singular value of a triangular matrix by power and inverse iteration (within a few %)."""
    if bool((R.diagonal() == 0).any()):
        return float(torch.linalg.matrix_norm(R)), 0.0
    n = R.shape[0]
    if n <= 256:
        singular = np.linalg.svd(R.numpy(), compute_uv=False)
        return float(singular[0]), float(singular[-1])
    # A fixed, full-spectrum start block: no randomness needed, no exact orthogonality to a singular vector in practice.
    count, column = torch.arange(1, n + 1, dtype=R.dtype), torch.arange(1, min(n, 3) + 1, dtype=R.dtype)
    block = torch.cos(column[None, :] * count[:, None] ** 1.5)
    big, small = torch.linalg.qr(block)[0], torch.linalg.qr(block)[0]
    top = bottom = torch.ones(1, dtype=R.dtype)
    for _ in range(12):
        image = R.T @ (R @ big)
        big, upper = torch.linalg.qr(image)
        top = upper.diagonal().abs().max()
        image = torch.linalg.solve_triangular(R.T, small, upper=False)
        image = torch.linalg.solve_triangular(R, image, upper=True)
        if not bool(torch.isfinite(image).all()):
            return float(top.sqrt()), 0.0
        small, upper = torch.linalg.qr(image)
        bottom = upper.diagonal().abs().max()
    return float(top.sqrt()), float(1 / bottom.sqrt())


class MinNorm:
    """Smallest solutions of A x = b for a wide or square A (T, P), by one QR of A^T.

    If A is numerically rank deficient (or tall), answers are truncated least-squares solutions instead, and `rank` says
    so; the caller decides what to make of it.
    """

    def __init__(self, A: Array) -> None:
        rows, cols = A.shape
        self._A = A
        self._matrix = torch.from_numpy(np.ascontiguousarray(A))
        self.method = "svd"
        if rows <= cols:
            self._factor, self._tau = torch.geqrf(self._matrix.T)
            self._R = self._factor[:rows].triu()
            top, bottom = _extreme_singular_values(self._R)
            if bottom > 4 * max(rows, cols) * np.finfo(np.float64).eps * top:
                self.method, self.rank, self.cond = "qr", rows, top / bottom
                return
        singular = np.linalg.svd(A, compute_uv=False)
        self.rank = int(np.sum(singular > max(A.shape) * np.finfo(np.float64).eps * singular[0]))
        self.cond = float(singular[0] / singular[-1]) if singular[-1] > 0 else float("inf")

    def solve(self, b: Array, *, refine: int = 1) -> Array:
        if self.method == "svd":
            return np.asarray(np.linalg.lstsq(self._A, b, rcond=None)[0], dtype=np.float64)
        right = torch.from_numpy(np.ascontiguousarray(b))
        total = self._once(right)
        for _ in range(refine):
            total += self._once(right - self._matrix @ total)
        return np.asarray(total.numpy(), dtype=np.float64)

    def _once(self, rhs: torch.Tensor) -> torch.Tensor:
        rows, cols = self._matrix.shape
        padded = torch.zeros((cols, rhs.shape[1]), dtype=rhs.dtype)
        padded[:rows] = torch.linalg.solve_triangular(self._R.T, rhs, upper=False)
        return torch.ormqr(self._factor, self._tau, padded)
