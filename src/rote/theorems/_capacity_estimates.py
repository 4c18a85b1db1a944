"""How many random facts the convex fits hold: measured rules, on the safe side. No numpy, so that plans stay fast."""

from __future__ import annotations

import math

from rote.config import Architecture

__all__ = ["argmax_capacity", "attention_capacity", "mlp_capacity"]


SAFETY = 0.8
COARSE_ROOM = 2
"""Room for the rounding of 16-bit formats: a plan is made for so many times the facts."""


def attention_capacity(n_tokens: int, n_targets: int, context: int, d_model: int, d_head: int, n_heads: int) -> int:
    """Random facts that the argmax fit holds in float32, with room to spare.

    A weight of W_O was measured to hold 1.4 bits, and one of the target codes, which are chosen from the features,
    about half as much: T log2 C = 1.4 k (P + min(0.7 C, P)) for P features and C targets in k = min(d, C - 1, P/3)
    dimensions. A fifth of that and 1.5 standard deviations are kept back, and no feature is trusted with more than 20
    facts. Up to 90 % of the rank the facts can be interpolated whatever they are. With four tokens or fewer part of the
    rank drowns in float32 rounding, so 40 % of it is not counted. On a line (d = 1) nothing is promised; in the plane
    (d = 2) only 70 % of the rank, as beyond it answers are right by less than float32 rounding.
    """
    if context < 2 or d_model == 1:
        return 0
    # Independent features of random heads: a head is a function of N + S - 2 token and position masses.
    rank = n_heads * min(d_head, n_tokens + context - 2) * (1.0 if n_tokens > 4 else 0.6)
    if d_model == 2:
        return int(0.7 * rank)
    useful = max(1.0, min(d_model, n_targets - 1, rank / 3))
    bits = math.log2(max(n_targets, 2))
    threshold = 1.4 * useful * (rank + min(0.7 * n_targets, rank)) / bits
    return int(max(0.9 * rank, min(SAFETY * threshold - 1.5 * math.sqrt(threshold), 20 * rank)))


def argmax_capacity(arch: Architecture, n_targets: int, dtype: str) -> int:
    """The same for a shape and a number format."""
    room = COARSE_ROOM if dtype in ("bfloat16", "float16") else 1
    return attention_capacity(arch.vocab, n_targets, arch.context, arch.d_model, arch.d_head, arch.n_heads) // room


def mlp_capacity(d_model: int, d_mlp: int, n_targets: int) -> int:
    """Random facts that the convex fit of a down projection holds: 1.1 bits for each of its d m weights."""
    return int(1.1 * d_model * d_mlp / math.log2(max(n_targets, 2)))
