"""Vectors as sequences for bit extraction: norms, distances, and duplicates up to order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rote.errors import AssumptionError, UsageError

if TYPE_CHECKING:
    from rote.constructions._base import Job
    from rote.constructions.kajitsuka2025_next_token import BitExtraction
    from rote.data import VectorTable

__all__ = ["check_vectors"]


def check_vectors(job: Job[VectorTable, BitExtraction], key: str) -> None:
    """(r, delta)-separation and distinctness up to order; the first offender is named."""
    from rote.solvers.exact.bags import equal_bags
    from rote.solvers.rows import closest_pair

    table, options = job.table, job.options
    if table.n_classes is None:
        raise AssumptionError(f"{key} stores labels, and these vectors have real targets; give class labels.")
    if job.dtype != "exact":
        raise UsageError(f"{key} takes vectors in exact arithmetic only, not as {job.dtype}; build in exact.")
    if options.with_positions:
        raise UsageError("positions are for token facts; add a coordinate to the vectors instead.")
    for name, value in (("delta", options.delta), ("radius", options.radius)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise UsageError(f"{name} must be a finite number above 0, got {value:g}.")
    sequences = table.sequences()
    t, n, d = sequences.shape
    tokens, first, index = np.unique(sequences.reshape(t * n, d), axis=0, return_index=True, return_inverse=True)

    def where(token: int) -> str:
        example, place = divmod(int(first[token]), n)
        return f"example {example + 1}, {'query' if place == n - 1 else f'context vector {place + 1}'}"

    if options.radius is not None:
        norms = np.linalg.norm(tokens, axis=1)
        worst = int(np.argmax(norms))
        if norms[worst] > options.radius:
            raise AssumptionError(
                f"{key} needs tokens of norm at most r = {options.radius:g}; {where(worst)} has norm "
                f"{norms[worst]:.6g}, {int((norms > options.radius).sum()):,} tokens in all. Scale the vectors."
            )
    if options.delta is not None and len(tokens) > 1:
        one, other, distance = closest_pair(tokens)
        if distance < options.delta:
            raise AssumptionError(
                f"{key} needs distinct tokens at least delta = {options.delta:g} apart; {where(one)} and "
                f"{where(other)} are {distance:.6g} apart. Merge them, or lower delta."
            )
    clash = equal_bags(index.reshape(t, n))
    if clash is not None:
        one, other, count = clash
        raise AssumptionError(
            f"{key} adds up tokens, so sequences must differ as bags; examples {one + 1} and {other + 1} have the "
            f"same vectors up to order, {count:,} such examples in all. Drop one of them."
        )
