"""How far a model is from a table of distributions: sum_t p_t KL(pi_t || softmax(scores_t)), in nats."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.data.outputs import Outputs
from rote.data.verification import Verification, finite
from rote.errors import UsageError
from rote.plot.sheet import Sheet

if TYPE_CHECKING:
    from rote.data.kinds.distributions import DistributionTable

__all__ = ["Divergence", "score_divergence"]

_SHOWN = 5
_SLACK = 1e-6
"""Nats (and share) by which a divergence may differ between machines."""


@dataclass(frozen=True)
class Divergence(Verification):
    """A verification of distributions: how far off the model is, and where most of it comes from.

    A context counts as recalled if its most likely token is also the model's; there is no margin.
    """

    kl: float = math.inf
    entropy: float = 0.0
    worst: tuple[tuple[str, float, float], ...] = ()
    """Contexts that contribute most: words, divergence, prior."""

    @property
    def kl_bits(self) -> float:
        return self.kl / math.log(2)

    @property
    def perplexity(self) -> float:
        """exp of the cross entropy: how many equally likely tokens the model hesitates between."""
        return math.exp(min(self.entropy + self.kl, 700.0))

    @property
    def passed(self) -> bool:
        """A model of distributions is as good as its width allows; only one that rules out what occurs is no model."""
        return math.isfinite(self.kl)

    def confirms(self, claim: Mapping[str, Any]) -> bool:
        """Whether the model is no farther off than the certificate says."""
        by_dtype = claim.get("kl_by_dtype")
        claimed = by_dtype.get(self.dtype) if isinstance(by_dtype, Mapping) else None
        worse = isinstance(claimed, (int, float)) and self.kl > claimed + _SLACK + _SLACK * abs(claimed)
        return not worse and not self.contradicted

    def remark(self, claim: Mapping[str, Any]) -> str:
        """How far above what any model of the width can do."""
        best = claim.get("encoder_kl")
        if not isinstance(best, (int, float)):
            return ""
        gap = self.kl - best
        return f"No model of this width is below {best:.6f} nats; gap {f'{gap:.2g}' if gap > 1e-9 else 'below 1e-9'}."

    def summary(self) -> str:
        return f"is {self.kl:.4g} nats off at {self.dtype}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "kl": finite(self.kl),
            "kl_bits": finite(self.kl_bits),
            "entropy": self.entropy,
            "perplexity": finite(self.perplexity),
            "perplexity_floor": math.exp(self.entropy),
            "n_contexts": self.n_facts,
            "recall": self.recall,
            "dtype": self.dtype,
            "judged_by": self.judged_by,
            "worst": [{"context": c, "kl": finite(k), "prior": p} for c, k, p in self.worst],
            **self.claims_record(),
        }

    def sheet(self) -> Sheet:
        shown = self.worst if self.kl > _SLACK else ()
        return Sheet(
            f"divergence {self.kl:.6f} nats",
            f" ({self.kl_bits:.6f} bits) from {self.n_facts:,} contexts at {self.dtype}; perplexity "
            f"{self.perplexity:.4g}, the table's own is {math.exp(self.entropy):.4g}",
            tuple(f"  {words}: {kl:.4g} nats, prior {prior:.3g}" for words, kl, prior in shown),
        )

    def __repr__(self) -> str:
        return f"Divergence({self.kl:.4g} nats from {self.n_facts:,} contexts at {self.dtype})"


def score_divergence(table: DistributionTable, outputs: Outputs, dtype: str) -> Divergence:
    """Ask for every context; softmax and sums are in float64 whatever the model's number format is."""
    import torch

    parts = np.empty(table.n_facts)
    agree = 0
    for rows in outputs.parts(table.n_facts):
        scores = outputs.scores(table.inputs(rows)).to(torch.float64)[:, : table.vocab]
        if scores.shape != (rows.stop - rows.start, table.vocab):
            raise UsageError(
                f"the model must give a score for each of {table.vocab} tokens, but its outputs have shape "
                f"{tuple(scores.shape)}; it was made for other tokens."
            )
        pi = torch.tensor(table.probabilities[rows])
        logs = scores - scores.max(dim=1, keepdim=True).values
        logs = logs - torch.log(torch.exp(logs).sum(dim=1, keepdim=True))
        terms = torch.where(pi > 0, pi * (torch.log(pi.clamp_min(1e-300)) - logs), torch.zeros_like(pi))
        sums = terms.sum(dim=1)
        parts[rows] = torch.where(torch.isnan(sums), torch.full_like(sums, math.inf), sums).numpy()
        best = pi.gather(1, scores.argmax(dim=1, keepdim=True))[:, 0]
        agree += int((best >= pi.max(dim=1).values * (1 - 1e-12)).sum())
    with np.errstate(invalid="ignore"):
        shares = np.where(table.prior > 0, table.prior * parts, 0.0)
    order = np.argsort(-shares, kind="stable")[:_SHOWN]
    worst = tuple((" ".join(table.context_tokens(int(i))), float(parts[i]), float(table.prior[i])) for i in order)
    return Divergence(
        n_facts=table.n_facts,
        n_failed=table.n_facts - agree,
        min_margin=math.nan,
        dtype=dtype,
        evaluator=outputs.evaluator,
        judged_by=outputs.judged_by,
        kl=max(0.0, float(shares.sum())),
        entropy=table.entropy,
        worst=worst,
    )
