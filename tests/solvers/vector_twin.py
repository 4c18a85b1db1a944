"""A plain forward pass of the vector layer, one example and one head at a time: shares no code with the builders."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Real = npt.NDArray[np.floating[Any]]


def plain_predict(weights: Any, contexts: Real, queries: Real, dtype: str = "float64") -> Real:
    W_Q, W_K, W_V, W_O = (np.asarray(getattr(weights, name), dtype=dtype) for name in ("W_Q", "W_K", "W_V", "W_O"))
    contexts, queries = contexts.astype(dtype), queries.astype(dtype)
    out = []
    for t, e in enumerate(queries):
        E = contexts if contexts.ndim == 2 else contexts[t]
        y = np.zeros(W_O.shape[1], dtype=dtype)
        for h in range(len(W_Q)):
            scores = (E @ W_K[h].T) @ (W_Q[h] @ e)
            a = np.exp(scores - scores.max())
            a /= a.sum()
            y += W_O[h] @ (W_V[h] @ (E.T @ a))
        out.append(y)
    return np.stack(out)


def plain_attention(weights: Any, contexts: Real, queries: Real) -> Real:
    """(T, H, n) in float64."""
    out = np.zeros((len(queries), len(weights.W_Q), contexts.shape[-2]))
    for t, e in enumerate(queries):
        E = contexts if contexts.ndim == 2 else contexts[t]
        for h in range(len(weights.W_Q)):
            scores = E @ weights.W_K[h].T @ weights.W_Q[h] @ e
            a = np.exp(scores - scores.max())
            out[t, h] = a / a.sum()
    return out
