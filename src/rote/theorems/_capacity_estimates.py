"""How many random facts the convex fits hold: measured rules, on the safe side. No numpy, so that plans stay fast."""

from __future__ import annotations

import math

__all__ = ["attention_capacity", "attention_rank", "mlp_capacity"]


def attention_rank(n_tokens: int, context: int, d_head: int, n_heads: int) -> int:
    """Independent features of random heads: a head is a function of N + S - 2 token and position masses."""
    return n_heads * min(d_head, n_tokens + context - 2)


def attention_capacity(
    n_tokens: int, n_targets: int, context: int, d_model: int, d_head: int, n_heads: int, *, rank: int | None = None
) -> int:
    """Random facts that the argmax fit holds in float32, with room to spare.

    The measured threshold is rho times the feature rank, rho = max(2k/(2k - 1), 1.4 k/log2 C) for C targets in
    k = min(d, C - 1) useful dimensions. Twelve per cent and 1.5 standard deviations are kept back. Up to 90 % of the
    rank the facts can be interpolated whatever they are. With four tokens or fewer part of the rank drowns in float32
    rounding, so 40 % of it is not counted. On a line (d = 1) nothing is promised; in the plane (d = 2) only 70 % of
    the rank, as beyond it answers are right by less than float32 rounding.
    """
    if context < 2 or d_model == 1:
        return 0
    full = attention_rank(n_tokens, context, d_head, n_heads) if rank is None else rank
    counted = full * (1.0 if n_tokens > 4 else 0.6)
    if d_model == 2:
        return int(0.7 * counted)
    useful = max(1, min(d_model, n_targets - 1))
    rho = max(2 * useful / (2 * useful - 1), 1.4 * useful / math.log2(max(n_targets, 2)))
    threshold = rho * counted
    return int(max(0.9 * counted, 0.88 * threshold - 1.5 * math.sqrt(threshold)))


def mlp_capacity(d_model: int, d_mlp: int, n_targets: int) -> int:
    """Random facts that the convex fit of a down projection holds: 1.1 bits for each of its d m weights."""
    return int(1.1 * d_model * d_mlp / math.log2(max(n_targets, 2)))
