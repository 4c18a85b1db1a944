"""How close an attention-only layer comes to a table of distributions: built by the theorem, refitted, trained.

Every pair of N tokens has a distribution over the next one, softmax of Gaussian logits of deviation `spread`, and all
pairs are equally likely. At H heads of width d: the construction of Theorem 1 (Dana et al. 2025), which interpolates
the contexts that H d + d features afford; the convex refit of all contexts on the same features; training by Adam on
the distributions themselves; and the best sequence encoder of that width, which no model beats. Losses are
cross-entropies in nats, the divergence plus the entropy of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rote.config import Architecture
from rote.data import DistributionTable, random_distributions
from rote.lab.studies._params import Params
from rote.training import ModelSpec, initial_weights
from rote.training.forward import token_logits
from rote.training.optim import Adam

__all__ = ["KEYS", "PARAMS", "run", "seconds"]

PARAMS: Params = {
    "n_heads": (int, 4),
    "d_model": (int, 5),
    "vocab": (int, 20),
    "spread": (float, 2.0),
    "steps": (int, 500),
    "rate": (float, 0.01),
}
KEYS = ("way",)


def seconds(params: Mapping[str, Any]) -> float:
    """About how long one run takes."""
    pairs, heads = int(params["vocab"]) ** 2, int(params["n_heads"])
    return 5 + 2e-8 * pairs * heads * int(params["d_model"]) * int(params["steps"]) + 1e-7 * pairs**2


def run(p: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """A row for each way."""
    from rote.pipeline import build

    table = random_distributions(
        p["vocab"] ** 2, 2, p["vocab"], rng=np.random.default_rng([seed, 0]), alpha=0.0, spread=p["spread"]
    )
    width = p["d_model"]
    memory = build(
        table, "distribution_refit", n_heads=p["n_heads"], d_model=width, d_head=width, options={"starts": 1}, rng=seed
    )
    made = memory.certificate.to_dict()
    divergences = {
        "built by the theorem": made["interpolation_kl"],
        "built by the refit": made["refit_kl"],
        "trained": _trained(table, p, seed),
        "best encoder": made["encoder_kl"],
    }
    shared = {**p, "d_head": p["d_model"], "context": 2, "entropy": table.entropy, "n_facts": len(table)}
    return [
        {**shared, "way": way, "source": f"study:{way}", "divergence": kl, "cross_entropy": kl + table.entropy}
        for way, kl in divergences.items()
        if kl is not None
    ]


def _trained(table: DistributionTable, p: Mapping[str, Any], seed: int) -> float:
    """The least divergence on the way of full-batch Adam, the rate falling to a twentieth."""
    arch = Architecture(p["n_heads"], p["d_model"], p["d_model"], 2, p["vocab"])
    spec = ModelSpec("aot", arch)
    drawn = initial_weights(spec, np.random.default_rng([seed, 1]))
    weights = {name: torch.from_numpy(value)[None].float().requires_grad_() for name, value in drawn.items()}
    contexts = torch.from_numpy(np.array(table.contexts).T.copy())[None]
    wanted = torch.from_numpy(np.array(table.probabilities).T.copy())[None].float()
    optimiser = Adam(list(weights.values()), (0.9, 0.999))
    best = float("inf")
    for step in range(p["steps"]):
        logs = torch.log_softmax(token_logits(spec, weights, contexts), dim=1)
        loss = -(wanted * logs).sum(1).mean()
        best = min(best, float(loss.detach()))
        rate = p["rate"] * (1 - 0.95 * step / p["steps"])
        optimiser.step(torch.autograd.grad(loss, list(weights.values())), rate)
    return best - table.entropy
