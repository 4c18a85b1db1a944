"""Saturation put to work: the construction of Theorem 1 (Mahdavi et al. 2024) against training and random features.

All three make the same layer for the same examples, at the number of examples that the theorem promises times `load`.
One row has what the layer is like: time, norms of the weights, smallest margin, saturation. The other rows have its
recall after the weights were rounded (float32, bfloat16, int8, int4) or disturbed by Gaussian noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rote.data import random_vectors
from rote.errors import UsageError
from rote.lab.studies._layers import METHODS, make, margin, quantised, recall, saturated
from rote.lab.studies._params import Params, chosen

__all__ = ["KEYS", "NOISE", "PARAMS", "run", "seconds"]

NOISE = tuple(float(10 ** (k / 2)) for k in range(-12, 2))
_DRAWS = 5
KEYS = ("noise",)

PARAMS: Params = {
    "method": (str, "saturation"),
    "n_heads": (int, 8),
    "context": (int, 8),
    "d_model": (int, 16),
    "d_head": (int, 8),
    "n_classes": (int, 10),
    "sharing": (float, 0.0),
    "load": (float, 1.0),
    "steps": (int, 1000),
}


def seconds(params: Mapping[str, Any]) -> float:
    """About how long one run takes."""
    numbers = int(params["n_heads"]) ** 2 * int(params["context"]) * int(params["d_model"])
    return 0.1 + 2e-5 * numbers * (1 + (int(params["steps"]) / 100 if params["method"] == "train" else 0))


def run(p: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """A row for the layer as made (`test` = "made"), and one for each format and each size of noise."""
    method = chosen("method", p["method"], METHODS)
    if p["load"] <= 0:
        raise UsageError(f"load must be above 0, got {p['load']}.")
    bound = p["n_heads"] * (min(p["context"], p["d_head"]) - 1) + 1
    count = max(1, int(p["load"] * bound))
    table = random_vectors(
        count, p["context"], p["d_model"], rng=np.random.default_rng([seed, 0]), sharing=p["sharing"],
        distribution="gaussian", n_classes=p["n_classes"],
    )  # fmt: skip
    layer = make(method, table, p["n_heads"], p["d_head"], steps=p["steps"], seed=seed)
    weights = layer.weights
    maps = [np.asarray(w, dtype=np.float64) for w in (weights.W_Q, weights.W_K, weights.W_V)]
    common = {**p, "source": "train:soap" if method == "train" else f"build:{method}", "n_facts": count, "bound": bound}
    rows: list[dict[str, Any]] = [
        {
            **common,
            "test": "made",
            "share_of_facts": recall(weights, table),
            "params": sum(w.size for w in maps),
            "seconds": layer.seconds,
            "weight_norm": float(np.sqrt(sum(np.square(w).sum() for w in maps))),
            "weight_max": float(max(np.abs(w).max() for w in maps)),
            "margin": margin(weights, table),
            "saturated": saturated(weights, table),
        }
    ]
    for how in ("float32", "bfloat16", "int8", "int4"):
        rows.append({**common, "test": how, "share_of_facts": recall(quantised(weights, how), table)})
    rng = np.random.default_rng([seed, 2])
    for size in NOISE:
        shares = [recall(quantised(weights, "noise", rng, size), table) for _ in range(_DRAWS)]
        rows.append({**common, "test": "noise", "noise": size, "share_of_facts": float(np.mean(shares))})
    return rows
