"""Do trained heads saturate, and do examples split over them? (Mahdavi et al. 2024, saturation study)

In the proof of Theorem 1 every example is served by one head: all other heads are saturated on it, that is, put
nearly all weight on one context row. Here a layer is trained on random examples with a shared context, and a head
counts as saturated on an example when its largest weight is above 0.99.

Rows, by the column `what`:
    example   for k = 0, ..., H: the share of examples on which k heads are saturated, and what independent heads with
              the same rates would give
    head      the share of examples on which the head is saturated
    layer     recall, means, and the mean correlation of two heads (negative if examples split over them)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.data._arrays import FloatArray
from rote.errors import UsageError

__all__ = ["KEYS", "PARAMS", "run", "seconds"]

PARAMS: dict[str, tuple[type, Any]] = {
    "n_heads": (int, None),
    "n_facts": (int, None),
    "d_model": (int, 64),
    "d_head": (int, 0),
    "context": (int, 32),
    "vocab": (int, 100),
    "recipe": (str, "best"),
    "steps": (int, 0),
    "rate": (float, 0.0),
    "stop": (bool, False),
    "threshold": (float, 0.99),
}
KEYS = ("saturated_heads", "head")


def seconds(params: Mapping[str, Any]) -> float:
    steps = params["steps"] or 50_000
    batch = 256 if params["recipe"] == "mahdavi2024" else params["n_facts"]
    return float(steps * (3e-4 + 7e-9 * batch * (6 * params["n_heads"] * params["context"] + 4 * params["vocab"])))


def run(params: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    from rote.measurement import Cell
    from rote.measurement.run import draw
    from rote.training import train

    if not 0 < params["threshold"] < 1:
        raise UsageError(f"threshold is a weight between 0 and 1, got {params['threshold']}.")
    cell = Cell(
        n_heads=params["n_heads"],
        d_model=params["d_model"],
        d_head=params["d_head"] or params["d_model"],
        context=params["context"],
        vocab=params["vocab"],
        task="recall",
        n_facts=params["n_facts"],
        family="layer",
        recipe=params["recipe"],
        sharing=1.0,
        steps=params["steps"] or None,
        rate=params["rate"] or None,
        seed=seed,
    )
    recipe = cell.training().replace(stop_when_all=params["stop"])
    table: Any = draw(cell, params["n_facts"])
    (outcome,) = train(cell.spec, [table], recipe, [seed])
    largest = largest_weights({name: tensor.double().numpy() for name, tensor in outcome.weights.items()}, table)
    blind = largest > params["threshold"]
    layer = {"what": "layer", "share_of_facts": outcome.share, "steps": outcome.steps, **split_of(blind)}
    heads = [{"what": "head", "head": h, "share": float(blind[:, h].mean())} for h in range(blind.shape[1])]
    chance = independent(blind.mean(axis=0))
    count = blind.sum(axis=1)
    examples = [
        {
            "what": "example",
            "saturated_heads": k,
            "share": float((count == k).mean()),
            "share_if_independent": chance[k],
        }
        for k in range(blind.shape[1] + 1)
    ]
    return [{"d_head": cell.arch.d_head, **row} for row in (layer, *heads, *examples)]


def largest_weights(weights: Mapping[str, FloatArray], table: Any) -> FloatArray:
    """The largest attention weight (T, H) of every head on every example of one shared context."""
    from rote.training.vectors import sinusoids

    context, queries = np.asarray(table.contexts, float), np.asarray(table.queries, float)
    places = sinusoids(context.shape[0] + 1, context.shape[1]).numpy()
    rows = context @ weights["W_in"].T + weights["b_in"] + places[1:]
    asked = queries @ weights["W_in"].T + weights["b_in"] + places[0]
    largest = []
    for W_Q, W_K in zip(weights["W_Q"], weights["W_K"], strict=True):
        scores = (asked @ W_Q.T) @ (rows @ W_K.T).T / math.sqrt(context.shape[1])
        scores -= scores.max(axis=1, keepdims=True)
        largest.append(1 / np.exp(scores).sum(axis=1))
    return np.stack(largest, axis=1)


def split_of(blind: npt.NDArray[np.bool_]) -> dict[str, float]:
    """How examples are spread over heads: saturated heads an example, and the mean correlation of pairs of heads."""
    n_heads = blind.shape[1]
    live = [h for h in range(n_heads) if 0 < blind[:, h].mean() < 1]
    pairs = 0.0
    if len(live) > 1:
        table = np.corrcoef(blind[:, live].T.astype(float))
        pairs = float(table[np.triu_indices(len(live), 1)].mean())
    count = blind.sum(axis=1)
    return {
        "saturated_heads_mean": float(count.mean()),
        "saturated_share": float(blind.mean()),
        "some_head_saturated": float((count > 0).mean()),
        "one_head_unsaturated": float((count == n_heads - 1).mean()),
        "head_correlation": pairs,
        "variance_ratio": float(count.var() / max(1e-12, float((blind.mean(0) * (1 - blind.mean(0))).sum()))),
    }


def independent(rates: FloatArray) -> list[float]:
    """The distribution of the number of saturated heads if heads were independent (Poisson binomial)."""
    chance = np.array([1.0])
    for rate in rates:
        chance = np.convolve(chance, [1 - rate, rate])
    return [float(value) for value in chance]
