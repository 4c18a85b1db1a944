"""Look-up tables in d dimensions: an upper bound for the best encoder (Dana, Pydi, Chevaleyre 2025, Theorem 2).

Statement: let g(t) be one token for every context, and W (N, d) have unit rows with |W_i . W_j| <= C < 1/2 for i != j.
           Then d_KL(pi, L) <= E_t (1 - pi(g(t)|t)) (1 + 2C + C d_TV) / (1 - 2C) log((N - 1) / (e^H(pi_t) - 1)), with H
           the entropy in nats. Random projections have such a W with C = sqrt(32 ln(N + 1) / d).
Notation:  N = vocab, d = d_model, C = coherence, d_TV = a distance between distributions, at most 1.
Source:    arXiv 2411.10115 v2.
Differs:   g(t) is the most likely token; d_TV is taken as 1, the most it can be; and C may be measured on an optimised
           frame, since the proof uses nothing else about W. The printed C is below 1/2 only for d > 128 ln(N + 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize

from rote.data import DistributionTable
from rote.data._arrays import FloatArray as Array

__all__ = ["Lookup", "coherence", "frame", "lookup_bound", "printed_coherence", "welch"]


@dataclass(frozen=True)
class Lookup:
    """Theorem 2 at one width, with the printed constant and with a measured one; None where C >= 1/2."""

    printed_c: float
    printed: float | None
    measured_c: float
    measured: float | None
    welch: float
    """No frame of N unit vectors in d dimensions has a smaller coherence (Welch's bound)."""


def printed_coherence(vocab: int, d_model: int) -> float:
    """sqrt(32 ln(N + 1) / d)."""
    return math.sqrt(32 * math.log(vocab + 1) / d_model)


def welch(vocab: int, d_model: int) -> float:
    """The least coherence that is conceivable."""
    return 0.0 if vocab <= d_model else math.sqrt((vocab - d_model) / (d_model * (vocab - 1)))


def coherence(W: npt.ArrayLike) -> float:
    """max |W W^T - Id|, for unit rows."""
    rows = np.asarray(W, dtype=np.float64)
    largest = 0.0
    for start in range(0, len(rows), 1024):
        gram = rows[start : start + 1024] @ rows.T
        gram[np.arange(len(gram)), start + np.arange(len(gram))] -= 1
        largest = max(largest, float(np.abs(gram).max()))
    return largest


def frame(vocab: int, d_model: int, *, rng: np.random.Generator, iterations: int = 300) -> Array:
    """N unit vectors in d dimensions, as far from parallel as L-BFGS makes them: a smooth maximum, ever sharper."""
    if vocab <= d_model:
        return np.eye(vocab, d_model)
    if d_model == 1:
        return np.ones((vocab, 1))
    rows = rng.standard_normal((vocab, d_model))
    best: Array = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    if not iterations:
        return best
    for sharpness in (50.0, 200.0, 800.0, 3200.0):
        best = _spread(best, sharpness, iterations)
    return best


def _spread(start: Array, sharpness: float, iterations: int) -> Array:
    shape = start.shape
    off = ~torch.eye(shape[0], dtype=torch.bool)

    def function(flat: Array) -> tuple[float, Array]:
        raw = torch.from_numpy(flat.reshape(shape)).requires_grad_(True)
        rows = raw / raw.norm(dim=1, keepdim=True)
        squares = (rows @ rows.T).square()[off]
        value = torch.logsumexp(sharpness * squares, dim=0) / sharpness
        (slope,) = torch.autograd.grad(value, raw)
        return float(value.detach()), slope.numpy().reshape(-1)

    found = minimize(function, start.reshape(-1), jac=True, method="L-BFGS-B", options={"maxiter": iterations})
    rows = np.asarray(found.x.reshape(shape), dtype=np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows if coherence(rows) < coherence(start) else start


def _value(table: DistributionTable, C: float) -> float | None:
    if not C < 0.5:
        return None
    miss = 1 - table.probabilities.max(axis=1)
    room = np.expm1(table.entropies)
    logs = np.log((table.vocab - 1) / np.where(room > 0, room, 1.0))
    # A context with one certain token contributes nothing: (1 - pi) goes to 0 faster than the logarithm grows.
    terms = np.where((miss > 0) & (room > 0), miss * np.maximum(logs, 0.0), 0.0)
    return float((1 + 3 * C) / (1 - 2 * C) * (table.prior @ terms))


def lookup_bound(table: DistributionTable, d_model: int, *, rng: np.random.Generator) -> Lookup:
    """Theorem 2 for the table at this width."""
    # Larger vocabularies get fewer iterations: a step costs N^2 d.
    work = table.vocab**2 * d_model
    iterations = 300 if work < 3e6 else 100 if work < 3e8 else 30 if work < 1e9 else 0
    measured = coherence(frame(table.vocab, d_model, rng=rng, iterations=iterations))
    printed = printed_coherence(table.vocab, d_model)
    return Lookup(printed, _value(table, printed), measured, _value(table, measured), welch(table.vocab, d_model))
