"""Exact forward pass of a whole transformer, and the labels that it gives: the referee for bit-extraction networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.referee.exact import Values, evaluate, labels_of, whole
from rote.referee.exact_format import Network, Transformer

__all__ = ["Shortcut", "token_labels", "vector_labels"]

IntArray = npt.NDArray[np.int64]
Shortcut = Callable[[IntArray], "IntArray | None"]
"""What F2 behind its first neuron says to integer keys; None where it cannot prove that it applies."""

GENERIC_UP_TO = 20_000
"""So many different inputs of the second network go through the generic evaluator, whatever shortcut there is."""
SAMPLE = 1024
"""So many answers of a shortcut are compared with the generic evaluator's."""


def token_labels(model: Transformer, contexts: IntArray, shortcut: Shortcut | None = None) -> tuple[IntArray, str]:
    """Labels (B,) or (B, S) of contexts (B, S), -1 where the output is none, and the evaluator that was used."""
    n = model.positions_seen
    null = np.full((len(contexts), model.padding), model.vocab, dtype=np.int64)
    rows = np.concatenate([null, contexts], axis=1)
    # Token-wise, so each token (at each position, where these count) is run once.
    distinct, index = np.unique(rows + (model.vocab + 1) * np.arange(n) * model.with_positions, return_inverse=True)
    columns = [distinct]
    if model.with_positions:
        columns = [distinct % (model.vocab + 1), distinct // (model.vocab + 1)]
    first = evaluate(model.first, [Values(column) for column in columns])
    back = index.reshape(rows.shape)
    mean = _mean(model, first[0], back, n)
    if not model.every_position:
        return _labels(model, [mean], shortcut)
    token = first[1]
    own = Values(token.numerators[back[:, model.padding :].reshape(-1)] * n, token.shift, n)
    spread = Values(np.repeat(mean.numerators, model.context), mean.shift, n)
    labels, evaluator = _labels(model, [spread, own], shortcut)
    return labels.reshape(len(contexts), model.context), evaluator


def vector_labels(
    model: Transformer, sequences: npt.NDArray[np.float64], shortcut: Shortcut | None = None
) -> tuple[IntArray, str]:
    """Labels (B,) of sequences (B, n, d) of vectors, which are taken as the dyadic numbers that they are."""
    b, n, d = sequences.shape
    tokens, index = np.unique(sequences.reshape(b * n, d), axis=0, return_inverse=True)
    first = evaluate(model.first, [dyadic(tokens[:, i]) for i in range(d)])
    return _labels(model, [_mean(model, first[0], index.reshape(b, n), n)], shortcut)


def dyadic(numbers: npt.NDArray[np.float64]) -> Values:
    """Floats as exact fractions with one common power of two."""
    ratios = [float(x).as_integer_ratio() for x in numbers]
    shift = max((q.bit_length() - 1 for _, q in ratios), default=0)
    numerators = np.empty(len(ratios), dtype=object)
    numerators[:] = [p << (shift - (q.bit_length() - 1)) for p, q in ratios]
    return Values(numerators, shift)


def _mean(model: Transformer, values: Values, index: IntArray, n: int) -> Values:
    """What attention hands on: W_Q = W_K = 0, and softmax of equal scores weighs each of n positions 1/n."""
    W_V, W_O = model.attention
    total: npt.NDArray[Any] = values.numerators[index].sum(axis=1)
    return Values(total * (W_V * W_O), values.shift, n)


def _labels(model: Transformer, inputs: list[Values], shortcut: Shortcut | None) -> tuple[IntArray, str]:
    size = len(inputs[0])
    if shortcut is not None and size > GENERIC_UP_TO:
        keys = _front(model.second, inputs)
        labels = None if keys is None else shortcut(keys)
        # A shortcut proves itself for the model in memory; a sample shows that this is the one on disk.
        some = np.linspace(0, size - 1, SAMPLE).astype(np.int64)
        sample = [Values(column.numerators[some], column.shift, column.denominator) for column in inputs]
        if labels is not None and (labels[some] == labels_of(evaluate(model.second, sample)[0])).all():
            return labels, "grouped"
    return labels_of(evaluate(model.second, inputs)[0]), "generic"


def _front(second: Network, inputs: list[Values]) -> IntArray | None:
    """What the first layer of F2 makes of its inputs, where that is one integer."""
    if second.layers[0].n_out != 1 or not second.layers[0].relu:
        return None
    return whole(evaluate(Network(second.layers[:1]), inputs)[0])
