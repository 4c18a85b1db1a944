"""How close training comes to a table of distributions of the authors' size, N = 100 and d = 10 (Dana et al. 2025).

Their generator is known only as a family: a power of uniform draws for each context, normalised. Here the power is
chosen so that the mean entropy of the next token, below which no loss can be, is `entropy`: by default the number that
they give as best possible. Pairs of tokens are equally likely (`pairs` = even), or drawn by laws of the same family
(`pairs` = drawn), so that few of them make up most of the loss; which of the two they have is not known either. One
layer of attention is trained by full-batch Adam on the distributions themselves. Building is left out: the search for
the best encoder takes hours at this size (`distribution_loss` has smaller tables).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rote.config import Architecture
from rote.data._arrays import FloatArray
from rote.errors import UnknownName, UsageError
from rote.lab.studies._params import Params
from rote.training import ModelSpec, initial_weights
from rote.training.optim import Adam
from rote.training.pairs import pair_logits

__all__ = ["KEYS", "PARAMS", "power_table", "run", "seconds"]

PARAMS: Params = {
    "n_heads": (int, 4),
    "d_model": (int, 10),
    "vocab": (int, 100),
    "entropy": (float, 1.186),
    "pairs": (str, "even"),
    "steps": (int, 1000),
    "rate": (float, 0.01),
}
KEYS = ("way",)
_WAYS = {"even": "trained, N = 100, pairs even", "drawn": "trained, N = 100, pairs drawn"}
_LARGEST_POWER = 1e4


def seconds(params: Mapping[str, Any]) -> float:
    """About how long one run takes."""
    pairs = int(params["vocab"]) ** 2
    work = pairs * (int(params["n_heads"]) * (int(params["d_model"]) + 8) + 4 * int(params["vocab"]))
    return 2 + 6e-9 * work * int(params["steps"])


def run(p: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """One row."""
    if p["pairs"] not in _WAYS:
        raise UnknownName("way of drawing pairs", str(p["pairs"]), _WAYS)
    if not 0 < p["entropy"] < np.log(p["vocab"]):
        raise UsageError(f"entropy must lie between 0 and log {p['vocab']}, in nats; got {p['entropy']}.")
    rng = np.random.default_rng([seed, 0])
    power, prior, table = power_table(p["vocab"], p["entropy"], rng, drawn=p["pairs"] == "drawn")
    loss = _trained(prior, table, p, seed)
    way = _WAYS[p["pairs"]]
    shape = {"d_head": p["d_model"], "context": 2, "n_facts": p["vocab"] ** 2}
    return [{**p, **shape, "way": way, "source": f"study:{way}", "power": power, "cross_entropy": loss}]


def power_table(
    vocab: int, entropy: float, rng: np.random.Generator, *, drawn: bool
) -> tuple[float, FloatArray, FloatArray]:
    """A power k, the chance of every pair and its distribution, u^k / sum u^k; entry b N + a is the pair (a, b)."""
    last, first, second = (np.log(rng.random((rows, vocab))) for rows in (vocab**2, 1, vocab))

    def of(logs: FloatArray, power: float) -> FloatArray:
        rows = np.exp(power * (logs - logs.max(axis=1, keepdims=True)))
        return np.asarray(rows / rows.sum(axis=1, keepdims=True))

    def chances(power: float) -> FloatArray:
        if not drawn:
            return np.full(vocab**2, vocab**-2.0)
        return np.asarray((of(first, power)[0][:, None] * of(second, power)).T.ravel())

    low, high = 0.0, _LARGEST_POWER
    for _ in range(60):
        middle = (low + high) / 2
        rows = of(last, middle)
        spread = -float(chances(middle) @ (rows * np.log(np.maximum(rows, 1e-300))).sum(axis=1))
        low, high = (middle, high) if spread > entropy else (low, middle)
    return high, chances(high), of(last, high)


def _trained(prior: FloatArray, table: FloatArray, p: Mapping[str, Any], seed: int) -> float:
    """The least cross-entropy on the way of full-batch Adam, the rate falling to a twentieth."""
    spec = ModelSpec("aot", Architecture(p["n_heads"], p["d_model"], p["d_model"], 2, p["vocab"]))
    drawn = initial_weights(spec, np.random.default_rng([seed, 1]))
    weights = {name: torch.from_numpy(value)[None].float().requires_grad_() for name, value in drawn.items()}
    wanted = torch.from_numpy((prior[:, None] * table).T.copy())[None].float()
    optimiser = Adam(list(weights.values()), (0.9, 0.999))
    best = float("inf")
    for step in range(p["steps"]):
        loss = -(wanted * torch.log_softmax(pair_logits(spec, weights), dim=1)).sum()
        best = min(best, float(loss.detach()))
        rate = p["rate"] * (1 - 0.95 * step / p["steps"])
        optimiser.step(torch.autograd.grad(loss, list(weights.values())), rate)
    return best
