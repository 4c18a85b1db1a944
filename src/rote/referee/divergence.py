"""The divergence of a model from a table of distributions, by a forward pass of the referee's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rote.data import DistributionTable

__all__ = ["Divergence", "score_distributions"]

_SHOWN = 5


@dataclass(frozen=True)
class Divergence:
    """What was measured: sum_t p_t KL(pi_t || softmax(logits_t)) in nats, and where it is worst."""

    n_contexts: int
    kl: float
    entropy: float
    agreement: float
    """The share of contexts whose most likely token is also the model's."""
    dtype: str
    worst: tuple[tuple[str, float, float], ...]
    """Contexts that contribute most: words, divergence, prior."""

    @property
    def kl_bits(self) -> float:
        return self.kl / math.log(2)

    @property
    def perplexity(self) -> float:
        """exp of the cross entropy: how many equally likely tokens the model hesitates between."""
        return math.exp(min(self.entropy + self.kl, 700.0))

    def to_dict(self) -> dict[str, Any]:
        return {
            "kl": _plain(self.kl),
            "kl_bits": _plain(self.kl_bits),
            "entropy": self.entropy,
            "perplexity": _plain(self.perplexity),
            "perplexity_floor": math.exp(self.entropy),
            "n_contexts": self.n_contexts,
            "recall": self.agreement,
            "dtype": self.dtype,
            "worst": [{"context": c, "kl": _plain(k), "prior": p} for c, k, p in self.worst],
        }


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def score_distributions(
    table: DistributionTable, logits: Callable[[Tensor], Tensor], dtype: str, *, chunk: int = 4096
) -> Divergence:
    """Run every context through `logits`; softmax and sums are in float64 whatever the model's number format is."""
    contexts = torch.tensor(table.contexts)
    parts = np.empty(table.n_contexts)
    agree = 0
    for start in range(0, table.n_contexts, chunk):
        rows = slice(start, min(start + chunk, table.n_contexts))
        scores = logits(contexts[rows]).to(torch.float64)[:, : table.vocab]
        pi = torch.tensor(table.probabilities[rows])
        logs = scores - scores.max(dim=1, keepdim=True).values
        logs = logs - torch.log(torch.exp(logs).sum(dim=1, keepdim=True))
        terms = torch.where(pi > 0, pi * (torch.log(pi.clamp_min(1e-300)) - logs), torch.zeros_like(pi))
        found = terms.sum(dim=1)
        parts[rows] = torch.where(torch.isnan(found), torch.full_like(found, math.inf), found).numpy()
        best = pi.gather(1, scores.argmax(dim=1, keepdim=True))[:, 0]
        agree += int((best >= pi.max(dim=1).values * (1 - 1e-12)).sum())
    with np.errstate(invalid="ignore"):
        shares = np.where(table.prior > 0, table.prior * parts, 0.0)
    order = np.argsort(-shares, kind="stable")[:_SHOWN]
    worst = tuple((" ".join(table.context_tokens(int(i))), float(parts[i]), float(table.prior[i])) for i in order)
    return Divergence(
        table.n_contexts, max(0.0, float(shares.sum())), table.entropy, agree / table.n_contexts, dtype, worst
    )
