"""One matrix as a memory of p pairs: where p log p meets a share of its weights."""

from __future__ import annotations

import math

__all__ = ["pairs_at", "shown"]


def pairs_at(weights: int, share: float) -> int:
    """The largest p with p ln p <= share * weights; at least 1."""
    limit = share * weights
    low, high = 1, 2
    while high * math.log(high) <= limit:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle * math.log(middle) <= limit else (low, middle)
    return low


def shown(d: int, p: int) -> str:
    """p ln p = d^2 / 2 with the numbers put in."""
    return f"p ln p = d^2/2 = {d}^2/2: p = {p:,}"
