"""How many random pairs one d x d matrix holds, by a convex fit, beside the limit of theory.

Keys and values are Gaussian vectors in R^d that cannot be chosen. A matrix W holds p pairs if v_i . W k_i is the
largest of all v_j . W k_i, for every i. Whether one exists is a convex question; the fit minimises the cross-entropy by
L-BFGS and stops as soon as all p are right, so that a failure may be one of steps: numbers are lower bounds. The limit
is that of a replica computation for large d, p ln p = d^2 / 2 (`giorlandino2026`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import minimize

from rote.data._arrays import FloatArray
from rote.lab.studies._params import Params
from rote.theorems._associative import pairs_at

__all__ = ["KEYS", "PARAMS", "holds", "run", "seconds"]

PARAMS: Params = {"d_model": (int, 16), "steps": (int, 500)}
KEYS: tuple[str, ...] = ()


class _AllRight(Exception):
    """Every pair is right: the fit may stop."""


def seconds(params: Mapping[str, Any]) -> float:
    """About how long one run takes."""
    return 0.2 + 1.2e-8 * int(params["d_model"]) ** 5


def _right(W: FloatArray, keys: FloatArray, values: FloatArray) -> bool:
    scores = keys @ W.T @ values.T
    own = scores.diagonal().copy()
    np.fill_diagonal(scores, -np.inf)
    return bool((own > scores.max(1)).all())


def holds(keys: FloatArray, values: FloatArray, steps: int) -> bool:
    """Whether a matrix was found that answers every key with its own value."""
    p, d = keys.shape
    if p == 1:
        return True
    own = np.arange(p)

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        scores = keys @ flat.reshape(d, d).T @ values.T
        scores -= scores.max(1, keepdims=True)
        chances = np.exp(scores)
        whole = chances.sum(1)
        value = float((np.log(whole) - scores[own, own]).mean())
        chances /= whole[:, None]
        chances[own, own] -= 1
        return value, ((chances @ values).T @ keys / p).ravel()

    def check(flat: FloatArray) -> None:
        if _right(flat.reshape(d, d), keys, values):
            raise _AllRight

    try:
        minimize(
            loss, np.zeros(d * d), jac=True, method="L-BFGS-B", callback=check, options={"maxiter": steps, "maxcor": 20}
        )
    except _AllRight:
        return True
    return False


def run(p: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """One row: the largest number of pairs that was held."""
    d = p["d_model"]
    limit = pairs_at(d * d, 0.5)
    rng = np.random.default_rng([seed, d])
    keys, values = rng.standard_normal((2, 4 * limit + 4, d))
    low, high = 1, 2
    while high <= len(keys) and holds(keys[:high], values[:high], p["steps"]):
        low, high = high, 2 * high
    high = min(high, len(keys) + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(keys[:middle], values[:middle], p["steps"]) else (low, middle)
    return [
        {
            **p,
            "source": "build:convex fit",
            "capacity": low,
            "limit": limit,
            "over_limit": low / limit,
            "load": low * math.log(low) / d**2,
            "bits_per_param": low * math.log2(low) / d**2,
            "params": d * d,
        }
    ]
