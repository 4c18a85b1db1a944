"""Networks of a prescribed form: the ones that the bound counts, for shapes that leave no room for others."""

from __future__ import annotations

import numpy as np

from rote.data._arrays import IntArray
from rote.solvers.exact.digits import DigitShape, memorise_digits
from rote.solvers.exact.identify import distinguishing, draw_values
from rote.solvers.exact.memorise import Made, behind_mean, with_carry
from rote.solvers.exact.network import Network
from rote.solvers.exact.transformer import ExactTransformer

__all__ = ["memorise_within"]

Form = tuple[int, DigitShape]
"""The limit on gaps and the shape of a memoriser on the line."""


def _line(keys: IntArray, labels: IntArray, n_labels: int, top: int, form: Form) -> tuple[Network, DigitShape]:
    cap, shape = form
    made = memorise_digits(
        keys, labels, n_labels, top=top, items=shape.items, cap=cap, narrow=shape.narrow, merged=shape.merged
    )
    return made.network, made.shape


def memorise_within(
    contexts: IntArray,
    labels: IntArray,
    n_labels: int,
    vocab: int,
    label_ids: tuple[int, ...],
    first: Form,
    second: Form,
    *,
    rng: np.random.Generator,
) -> Made:
    """Stored values for distinguishing tokens, and variant A with the given forms; labels (T,) or (T, n)."""
    n = contexts.shape[1]
    kept = distinguishing(contexts)
    values, ids, below = draw_values(contexts, vocab, kept, rng)
    network, _ = _line(kept, values[kept], below, vocab - 1, first)
    largest = n * (below - 1)
    factor, each = n, labels.ndim == 2
    if each:
        factor *= vocab
        keys, at = np.unique((ids[:, None] * vocab + contexts).reshape(-1), return_index=True)
        ids, labels, largest = keys, labels.reshape(-1)[at], largest * vocab + vocab - 1
        network = with_carry(network, {0: 1})
    line, shape = _line(ids, labels, n_labels, largest, second)
    model = ExactTransformer(
        "seq2seq" if each else "next_token",
        network,
        behind_mean(line, factor, token=each),
        n,
        n,
        vocab,
        label_ids,
        shape=None if shape.narrow else shape,
    )
    report = {"identify": "digits", "distinguishing_tokens": len(kept), "items": shape.items, "digit_bits": shape.bits}
    return Made(model, report)
