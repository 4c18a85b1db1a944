"""The grouped evaluators, for the referee: only ever for a network that is the canonical one, weight by weight."""

from __future__ import annotations

import numpy as np

from rote.data._arrays import IntArray
from rote.solvers.exact.digits_fast import evaluate_digits
from rote.solvers.exact.network import Network
from rote.solvers.exact.transformer import ExactTransformer

__all__ = ["grouped_labels"]


def grouped_labels(model: ExactTransformer, keys: IntArray) -> IntArray | None:
    """What F2 behind its first neuron says to integer keys; None where only the generic evaluator may judge."""
    line = Network(model.second.layers[1:])
    distinct, index = np.unique(keys, return_inverse=True)
    found: IntArray | None = None
    if model.variant == "A" and model.shape is not None:
        found = evaluate_digits(line, model.shape, distinct)
    elif model.variant == "C":
        from rote.solvers.exact.blocks_fast import evaluate_blocks

        found = evaluate_blocks(line, distinct)
    return None if found is None else found[index.reshape(-1)]
