"""Exact forward pass of a whole transformer, and the labels that it gives: the referee for bit-extraction networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from rote.referee.exact import Values, evaluate, labels_of, whole

if TYPE_CHECKING:
    from rote.solvers.exact.network import Network
    from rote.solvers.exact.transformer import ExactTransformer

__all__ = ["Evaluator", "Outputs", "token_outputs", "vector_outputs"]

IntArray = npt.NDArray[np.int64]
Evaluator = Literal["auto", "generic", "grouped"]
Fast = Callable[["ExactTransformer", IntArray], "IntArray | None"]

GENERIC_UP_TO = 20_000
"""So many different inputs of the second network go through the generic evaluator without being asked."""


@dataclass(frozen=True)
class Outputs:
    """The labels that the transformer gives, -1 where its output is none; `evaluator` says how F2 was run."""

    labels: IntArray
    evaluator: str


def token_outputs(
    model: ExactTransformer, contexts: IntArray, *, how: Evaluator = "auto", fast: Fast | None = None
) -> Outputs:
    """Outputs for contexts (B, S): (B,) with one label a sequence, (B, S) with one a position."""
    rows, n = _padded(model, contexts)
    # Token-wise, so each token (at each position, where these count) is run once.
    distinct, index = np.unique(rows + (model.vocab + 1) * np.arange(n) * model.with_positions, return_inverse=True)
    columns = [distinct]
    if model.with_positions:
        columns = [distinct % (model.vocab + 1), distinct // (model.vocab + 1)]
    first = evaluate(model.first, [Values(column) for column in columns])
    back = index.reshape(rows.shape)
    mean = _mean(model, first[0], back, n)
    if model.task == "next_token":
        return Outputs(*_labels(model, [mean], how, fast))
    token = first[1]
    own = slice(model.padding, None)
    per_token = Values(token.numerators[back[:, own].reshape(-1)] * n, token.shift, n)
    spread = Values(np.repeat(mean.numerators, model.context), mean.shift, n)
    found, evaluator = _labels(model, [spread, per_token], how, fast)
    return Outputs(found.reshape(len(contexts), model.context), evaluator)


def vector_outputs(
    model: ExactTransformer, sequences: npt.NDArray[np.float64], *, how: Evaluator = "auto", fast: Fast | None = None
) -> Outputs:
    """Outputs (B,) for sequences (B, n, d) of vectors, which are taken as the dyadic numbers that they are."""
    b, n, d = sequences.shape
    tokens, index = np.unique(sequences.reshape(b * n, d), axis=0, return_inverse=True)
    columns = [dyadic(tokens[:, i]) for i in range(d)]
    first = evaluate(model.first, columns)
    mean = _mean(model, first[0], index.reshape(b, n), n)
    return Outputs(*_labels(model, [mean], how, fast))


def dyadic(numbers: npt.NDArray[np.float64]) -> Values:
    """Floats as exact fractions with one common power of two."""
    ratios = [float(x).as_integer_ratio() for x in numbers]
    shift = max((q.bit_length() - 1 for _, q in ratios), default=0)
    made = np.empty(len(ratios), dtype=object)
    made[:] = [p << (shift - (q.bit_length() - 1)) for p, q in ratios]
    return Values(made, shift)


def _padded(model: ExactTransformer, contexts: IntArray) -> tuple[IntArray, int]:
    """Contexts with the null token (id `vocab`) in front, where attention sees more positions than tokens."""
    if not model.padding:
        return contexts, model.context
    null = np.full((len(contexts), model.padding), model.vocab, dtype=np.int64)
    return np.concatenate([null, contexts], axis=1), model.positions_seen


def _mean(model: ExactTransformer, values: Values, index: IntArray, n: int) -> Values:
    """What attention hands on: W_Q = W_K = 0, and softmax of equal scores weighs each of n positions 1/n."""
    W_V, W_O = model.attention
    total: npt.NDArray[Any] = values.numerators[index].sum(axis=1)
    return Values(total * (W_V * W_O), values.shift, n)


def _labels(model: ExactTransformer, inputs: list[Values], how: Evaluator, fast: Fast | None) -> tuple[IntArray, str]:
    size = len(inputs[0])
    if how != "generic" and fast is not None and (how == "grouped" or size > GENERIC_UP_TO):
        keys = _front(model.second, inputs)
        if keys is not None:
            found = fast(model, keys)
            if found is not None:
                return found, "grouped"
    return labels_of(evaluate(model.second, inputs)[0]), "generic"


def _front(second: Network, inputs: list[Values]) -> IntArray | None:
    """What the first layer of F2 makes of its inputs, where that is one integer."""
    from rote.solvers.exact.network import Network as Chain

    if second.layers[0].n_out != 1 or not second.layers[0].relu:
        return None
    return whole(evaluate(Chain(second.layers[:1]), inputs)[0])
