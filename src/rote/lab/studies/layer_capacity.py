"""How many examples one attention layer memorises, by saturation, random features or training, as contexts are shared.

`contexts` is how many different contexts there are: 1 is one shared context, 0 stands for one of its own for every
example, K between means that the examples take K contexts in turn. `own_rows` is for one pool of rows: of the n rows of
a context the last `own_rows` belong to one example alone and the others to all. What is measured, by `method`:

    rank              rank of the head outputs Z of a layer with random W_Q and W_K: so many real labels can be fitted
    saturation, random_features, train
                      the largest number of examples with random class labels that all come back, by bisection

For generic rows the rank can be at most H dim V + dim(span of all rows) - dim V, where V is spanned by the differences
of rows of one context: (H-1) min(K(n-1), d) + min(K n, d) with K contexts, which is H(n-1)+1
with one, K times that with a few, and H d with many. It is in the column `limit`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from rote.data import VectorTable
from rote.data._arrays import FloatArray
from rote.errors import RoteError, UsageError
from rote.lab.studies._layers import METHODS, make, recall
from rote.lab.studies._params import Params, chosen
from rote.measurement.search import largest
from rote.solvers.random_features import feature_rank_limit
from rote.solvers.vector_layer import features

__all__ = ["PARAMS", "draw", "rank_of_outputs", "run", "seconds"]


PARAMS: Params = {
    "method": (str, "rank"),
    "n_heads": (int, 8),
    "context": (int, 8),
    "d_model": (int, 16),
    "d_head": (int, 8),
    "n_classes": (int, 10),
    "contexts": (int, 0),
    "own_rows": (int, 0),
    "steps": (int, 600),
    "tolerance": (float, 0.05),
}
_RANK_TOLERANCE = 1e-10
_SCALES = (1.0, 3.0, 10.0, 30.0)
_LARGEST = 1 << 20


def seconds(params: Mapping[str, Any]) -> float:
    """About how long one run takes."""
    rank = int(params["n_heads"]) * int(params["d_model"])
    return 5e-4 * rank * int(params["steps"]) if params["method"] == "train" else 0.2 + 1e-8 * rank**3


def run(p: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """One row: the capacity, and what the theorems say about it."""
    method = chosen("method", p["method"], ("rank", *METHODS))
    h, n, d = p["n_heads"], p["context"], p["d_model"]
    for name in ("n_heads", "context", "d_model", "d_head"):
        if p[name] < 1:
            raise UsageError(f"{name} must be at least 1, got {p[name]}.")
    if p["own_rows"] > n:
        raise UsageError(f"own_rows counts rows of a context, so it is at most {n}, got {p['own_rows']}.")
    if p["own_rows"] and p["contexts"]:
        raise UsageError("give contexts or own_rows, and not both.")
    before = time.perf_counter()
    # As many examples as can matter: more than the largest rank there is.
    wide = draw(p, h * d + max(8, h * d // 8), seed)
    limit = feature_rank_limit(wide.contexts, wide.queries, h)
    if method == "rank":
        capacity = rank_of_outputs(wide, h, p["d_head"], np.random.default_rng([seed, 1]))
    else:
        capacity = _bisect(method, p, seed, limit)
    return [
        {
            **p,
            "source": "train:soap" if method == "train" else f"build:{method}",
            "capacity": capacity,
            "over_limit": capacity / limit,
            "n_contexts": p["contexts"] or wide.n_examples,
            "rows_own": (p["own_rows"] or n) if p["contexts"] == 0 else 0,
            "limit": limit,
            "theorem": h * (min(n, p["d_head"]) - 1) + 1,
            "shared_upper": min(h * (n - 1) + 1, h * d),
            "own_upper": h * d,
            "params": h * (2 * d * p["d_head"] + d * p["n_classes"]),
            "seconds": time.perf_counter() - before,
        }
    ]


def draw(p: Mapping[str, Any], count: int, seed: int) -> VectorTable:
    """The first `count` examples of a seed; a longer table begins with the shorter one."""
    n, d, pool = p["context"], p["d_model"], p["contexts"]
    # One generator for each thing drawn, so that the first examples do not depend on how many there are.
    queries = np.random.default_rng([seed, 0, 0]).standard_normal((count, d))
    labels = np.random.default_rng([seed, 0, 1]).integers(p["n_classes"], size=count)
    rng = np.random.default_rng([seed, 0, 2])
    common = rng.standard_normal((max(1, pool), n, d))
    if pool == 1:
        contexts: FloatArray = common[0]
    elif pool:
        contexts = common[np.arange(count) % pool]
    else:
        contexts = rng.standard_normal((count, n, d))
        if p["own_rows"]:
            contexts[:, : n - p["own_rows"]] = common[0, : n - p["own_rows"]]
    return VectorTable(contexts, queries, labels, p["n_classes"])


def rank_of_outputs(table: VectorTable, n_heads: int, d_head: int, rng: np.random.Generator) -> int:
    """The largest numerical rank of the head outputs over a few temperatures of random score maps."""
    best = 0
    for scale in _SCALES:
        size = np.sqrt(scale / (table.d_model * np.sqrt(d_head)))
        W_Q, W_K = (size * rng.standard_normal((n_heads, d_head, table.d_model)) for _ in range(2))
        Z = features(np.array(table.contexts), np.array(table.queries), W_Q, W_K).reshape(table.n_examples, -1)
        singular = np.linalg.svd(np.asarray(Z, dtype=np.float64), compute_uv=False)
        best = max(best, int(np.sum(singular > _RANK_TOLERANCE * singular[0])))
    return best


def _bisect(method: str, p: Mapping[str, Any], seed: int, limit: int) -> int:
    def ask(counts: Mapping[int, int]) -> dict[int, bool]:
        table = draw(p, counts[seed], seed)
        try:
            layer = make(method, table, p["n_heads"], p["d_head"], steps=p["steps"], seed=seed, stop=True)
        except RoteError:
            # More than the construction takes.
            return {seed: False}
        return {seed: recall(layer.weights, table) == 1.0}

    start = limit if method != "saturation" else p["n_heads"] * (min(p["context"], p["d_head"]) - 1) + 1
    return largest([seed], ask, start=start, most=_LARGEST, tolerance=p["tolerance"])[seed].low
