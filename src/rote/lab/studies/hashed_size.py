"""How many parameters a hashed table takes, zeros counted, in a usual number format.

A table that is built is run on all of its facts in that format; one that is only planned has the count of its first
layout, which is exact as far as that layout is the one that is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rote.data import random_facts
from rote.errors import FactsLost, UsageError
from rote.lab.studies._params import Params, chosen
from rote.solvers.hashed.layout import WORD_BITS, Layout
from rote.solvers.hashed.planning import layouts

__all__ = ["PARAMS", "run", "seconds"]

PARAMS: Params = {
    "n_facts": (int, 1000),
    "context": (int, 4),
    "vocab": (int, 256),
    "n_labels": (int, 32),
    "dtype": (str, "float32"),
    "built": (bool, True),
}
_BATCH = 4096


def seconds(params: Mapping[str, Any]) -> float:
    """About how long one run takes."""
    return 2.0 + (1e-4 * int(params["n_facts"]) if params["built"] else 0.0)


def run(p: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """One row: the size of one table, and the share of facts that come back if it was built."""
    dtype = chosen("dtype", p["dtype"], tuple(WORD_BITS))
    if p["n_labels"] < 2:
        raise UsageError(f"n_labels must be at least 2, got {p['n_labels']}.")
    if p["built"]:
        layout, share = _built(p, dtype, seed)
    else:
        layout, share = next(layouts(p["n_facts"], p["context"], p["vocab"], p["n_labels"], dtype)), None
    return [
        {
            **p,
            "source": f"{'build' if p['built'] else 'plan'}:hashed:{dtype}",
            "params": layout.params,
            "depth": layout.depth,
            "width": max(units for units, _ in layout.layers),
            "information_bits": layout.bits,
            "bits_per_param": layout.bits / layout.params,
            "capacity": p["n_facts"],
            **({} if share is None else {"share_of_facts": share}),
        }
    ]


def _built(p: Mapping[str, Any], dtype: str, seed: int) -> tuple[Layout, float]:
    import torch

    from rote.models.kinds.hashed_transformer import HashedTransformer, Words, as_tensors, shape_of
    from rote.solvers.hashed.memorise import memorise
    from rote.solvers.hashed.network import matrices

    rng = np.random.default_rng([seed, 0])
    contexts = np.array(random_facts(p["n_facts"], p["context"], p["vocab"], rng=rng).contexts)
    tokens, keys = np.unique(contexts, return_inverse=True)
    keys = keys.reshape(contexts.shape)
    labels = rng.integers(0, p["n_labels"], len(keys))
    for layout in layouts(len(keys), p["context"], len(tokens), p["n_labels"], dtype):
        try:
            made = memorise(keys, labels, layout, rng)
        except FactsLost:
            continue
        weights = as_tensors(matrices(made.hashing, made.rows), dtype)
        words = Words(tuple(range(len(tokens))), tuple(range(p["n_labels"])))
        module = HashedTransformer(shape_of(layout, max(len(tokens), p["n_labels"])), words, weights)
        with torch.no_grad():
            parts = [torch.from_numpy(keys[i : i + _BATCH]) for i in range(0, len(keys), _BATCH)]
            said = [module(part).argmax(dim=1) for part in parts]
        return layout, float(np.mean(torch.cat(said).numpy() == labels))
    raise AssertionError("the last layout has a row for every key")
