"""What models that can say "unknown" say of contexts that are no facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["told_unknown"]


def told_unknown(
    table: Any, says_unknown: Callable[[Any], Any], bits: int, tried: int, *, ordered: bool = True
) -> dict[str, int]:
    """How many contexts that are no facts are told as such, up to `tried` random ones and as many near misses.

    They are drawn by the table's hash: the same ones whenever this is measured, and none that the facts themselves were
    drawn with. With `ordered=False` the order of tokens does not count.
    """
    import numpy as np

    from rote.data import unknown_contexts

    contexts = unknown_contexts(table, tried, np.random.default_rng(int(table.sha256[:16], 16)), ordered=ordered)
    told = [int(np.count_nonzero(says_unknown(part))) if len(part) else 0 for part in (contexts.random, contexts.near)]
    return {
        "bits": bits,
        "tried": len(contexts),
        "told": sum(told),
        "near_tried": len(contexts.near),
        "near_told": told[1],
    }
