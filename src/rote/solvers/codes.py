"""Token codes read off the facts: which directions the answers take, and what a context token hints at.

Random codes leave the choice of the d output directions to chance.  The facts know better:

`discriminant_codes`  Fisher's discriminant on whitened features.  Whitened features have unit covariance within and
                      between classes together, so the directions that separate the classes best are the leading
                      singular directions of the class sums; a class's code is its mean there, scaled to length sqrt(d).
                      A class of one fact gets the very place its fact is mapped to, so that many targets cost almost
                      no features.  The convex fit starts from zero all the same; only the codes are chosen here.
`hinted_embeddings`   A context token's embedding is the mean answer code of the facts it occurs in, plus a random row
                      in the measure that they disagree.  A token with one answer carries it whole; one that occurs
                      everywhere is random.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rote.data._arrays import FloatArray, IntArray

__all__ = ["discriminant_codes", "hinted_embeddings", "unit_rows"]


def unit_rows(rows: FloatArray) -> FloatArray:
    """Every row at length one; a zero row stays zero."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    result: FloatArray = rows / np.where(length > 0.0, length, 1.0)
    return result


def class_sums(rows: Tensor, classes: IntArray, n_classes: int) -> Tensor:
    """Sum of the rows of each class, in float64, without a float64 copy of the whole matrix."""
    sums = torch.zeros(n_classes, rows.shape[1], dtype=torch.float64)
    places = torch.as_tensor(np.array(classes))
    for start in range(0, len(rows), 4096):
        sums.index_add_(0, places[start : start + 4096], rows[start : start + 4096].double())
    return sums


def discriminant_codes(
    white: Tensor, classes: IntArray, n_classes: int, d_model: int, rng: np.random.Generator
) -> FloatArray:
    """One code of length sqrt(d_model) per class: its mean along the directions that separate the classes best.

    Orthogonal iteration from a random start finds the leading directions of the sums divided by sqrt(class size);
    where fewer directions than `d_model` exist, the rest of the code is random.
    """
    rank = white.shape[1]
    n_directions = min(d_model, rank)
    size = torch.as_tensor(np.bincount(classes, minlength=n_classes).astype(np.float64))[:, None].clamp_min(1.0)
    sums = class_sums(white, classes, n_classes)
    weighted = sums / size.sqrt()
    basis = torch.as_tensor(rng.standard_normal((rank, n_directions)))
    for _ in range(30):
        basis = torch.linalg.qr(weighted.T @ (weighted @ basis)).Q
    means = unit_rows((sums / size @ basis).numpy())
    if n_directions < d_model:
        # Too few features for d directions: random rows keep classes apart that share all their features' directions.
        spare = rng.standard_normal((n_classes, d_model - n_directions)) / np.sqrt(d_model)
        means = unit_rows(np.concatenate([means, spare], axis=1))
    result: FloatArray = means * np.sqrt(d_model)
    return result


def hinted_embeddings(
    contexts: IntArray,
    classes: IntArray,
    answer_codes: FloatArray,
    vocab: int,
    rng: np.random.Generator,
    *,
    noise: float,
) -> FloatArray:
    """(vocab, d) unit rows: the mean answer code of a token's facts, and a random row where they disagree.

    Tokens that always mean one answer need not be told apart from each other, so they get no random part.
    """
    d_model = answer_codes.shape[1]
    codes = unit_rows(answer_codes)
    centred = codes - codes[classes].mean(axis=0) if len(codes) > 1 else codes
    hints, seen = np.zeros((vocab, d_model)), np.zeros(vocab)
    for place in range(contexts.shape[1]):
        np.add.at(hints, contexts[:, place], codes[classes])
        seen += np.bincount(contexts[:, place], minlength=vocab)
    hints /= np.maximum(seen, 1.0)[:, None]
    doubt = np.sqrt(np.maximum(0.0, 1.0 - np.square(hints).sum(axis=1)))
    doubt[doubt < 1e-6] = 0.0
    hints[seen > 0] += (centred - codes)[0]
    rows = noise * doubt[:, None] * unit_rows(rng.standard_normal((vocab, d_model))) + hints
    return unit_rows(rows)
