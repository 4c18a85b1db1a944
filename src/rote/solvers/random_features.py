"""Memorising real vectors with random attention features (ours, after Mahdavi et al. 2024).

Any generic W_Q, W_K give the layer of `vector_layer` features Z of the largest rank that the data allow; a linear solve
then interpolates. That is more examples than Theorem 1 promises, with no assumption on the queries but that no example
occurs twice, and d_h = 1 is enough:

    shared context: H rho + (0 or 1), where rho is the affine dimension of the context's rows: H(m-1)+1 for m <= d
                    distinct rows in general position;
    own contexts:   min(T, H d).

What is left to choose is the temperature: too cold and all softmaxes are alike, too hot and they are constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rote.data._arrays import FloatArray as Array
from rote.data._arrays import IntArray
from rote.errors import AssumptionError, CapacityError, UsageError
from rote.solvers.rows import distinct_rows
from rote.solvers.vector_layer import (
    LayerWeights,
    MinNorm,
    as_examples,
    as_targets,
    features,
    readout_weights,
)

__all__ = ["FeatureReport", "FeatureResult", "feature_rank_limit", "random_feature_layer"]


_RANK_TOLERANCE = 1e-10
_SCALES = (1.0, 3.0, 10.0, 30.0, 100.0)
_GOOD_ENOUGH = 100.0


@dataclass(frozen=True)
class FeatureReport:
    """The temperature that was kept, the standard deviation of the scores, and Z there."""

    scale: float
    rank: int
    cond: float


@dataclass(frozen=True)
class FeatureResult:
    """`weights` in float64; `weights32` with the same W_Q, W_K and a readout corrected on the float32 features."""

    weights: LayerWeights
    weights32: LayerWeights
    report: FeatureReport


def feature_rank_limit(contexts: npt.ArrayLike, queries: npt.ArrayLike, n_heads: int) -> int:
    """The largest number of these examples that Z can tell apart, for generic W_Q, W_K of any d_head >= 1.

    Head outputs for context g lie in its rows' affine hull x_g + V_g. So the examples on g span at most
    H dim V_g + [x_g not in V_g], and all examples together H dim V + dim(span of all rows) - dim V with V = sum V_g.
    Contexts may be shared, own, or anything between.
    """
    ctx, qry, shared = as_examples(contexts, queries)
    if shared:
        ctx = ctx[None]
        group = np.zeros(len(qry), dtype=np.int64)
    else:
        _, first, group = np.unique(ctx.reshape(len(ctx), -1), axis=0, return_index=True, return_inverse=True)
        ctx, group = ctx[first], group.reshape(-1)
    pairs = np.unique(np.concatenate([group[:, None].astype(np.float64), qry], axis=1), axis=0)
    counts = np.bincount(pairs[:, 0].astype(np.int64), minlength=len(ctx))
    each = int(counts.sum())
    if counts.max() > 1:
        each = 0
        for rows, count in zip(ctx, counts, strict=True):
            spread = _rank(rows[1:] - rows[0])
            each += min(int(count), n_heads * spread + _rank(rows) - spread)
    together = _rank((ctx[:, 1:] - ctx[:, :1]).reshape(-1, ctx.shape[2]))
    everything = _rank(ctx.reshape(-1, ctx.shape[2]))
    return min(each, n_heads * together + everything - together)


def _rank(rows: Array) -> int:
    if not rows.size:
        return 0
    singular = np.linalg.svd(_squeeze(rows), compute_uv=False)
    return int(np.sum(singular > _RANK_TOLERANCE * singular[0])) if singular[0] > 0 else 0


def _squeeze(rows: Array) -> Array:
    """A matrix of at most d rows with the same Gram matrix."""
    return np.asarray(np.linalg.qr(rows, mode="r") if len(rows) > 4 * rows.shape[1] else rows, dtype=np.float64)


def random_feature_layer(
    contexts: npt.ArrayLike,
    queries: npt.ArrayLike,
    targets: npt.ArrayLike,
    *,
    n_heads: int,
    d_head: int,
    rng: np.random.Generator,
    n_classes: int | None = None,
) -> FeatureResult:
    """Draw W_Q, W_K at each temperature, keep the best conditioned, solve for the readout. Inputs: `saturation_layer`.

    The scan stops early at a good condition number. An example that occurs twice is solved once; with two different
    targets it is refused.
    """
    ctx, qry, shared = as_examples(contexts, queries)
    y = as_targets(targets, len(qry), n_classes)
    if n_heads < 1 or d_head < 1:
        raise UsageError(f"n_heads and d_head must be at least 1; got {n_heads} and {d_head}.")
    keep = distinct_examples(ctx, qry, y)
    limit = feature_rank_limit(ctx, qry, n_heads)
    if len(keep) > limit:
        raise CapacityError(
            f"random features tell at most {limit} of these examples apart with {n_heads} heads; got {len(keep)}. Use "
            f"about {math.ceil(n_heads * len(keep) / limit)} heads."
        )
    some_ctx = ctx if shared else ctx[keep]
    some_qry, some_y = qry[keep], y[keep]

    # Step 1: directions in which the data vary. Whitened queries and whitened differences of context rows make every
    # head see the examples differently even if the vectors have a large common part (as uniform [0, 1] data do).
    query_map, key_map = _whitening(some_qry), _whitening(_centred_rows(some_ctx))

    # Step 2: scan the temperature, and keep the features with the smallest condition number.
    best: tuple[float, Array, Array, MinNorm] | None = None
    for scale in _SCALES:
        W_Q, W_K = (rng.standard_normal((n_heads, d_head, m.shape[0])) @ m for m in (query_map, key_map))
        size = math.sqrt(scale / math.sqrt(d_head))
        W_Q, W_K = size * W_Q, size * W_K
        Z = features(some_ctx, some_qry, W_Q, W_K).reshape(len(keep), -1)
        factor = MinNorm(np.asarray(Z, dtype=np.float64))
        if best is None or (-factor.rank, factor.cond) < (-best[3].rank, best[3].cond):
            best = (scale, W_Q, W_K, factor)
        if best[3].cond < _GOOD_ENOUGH:
            break
    assert best is not None, "there is at least one scale"
    scale, W_Q, W_K, factor = best

    # Step 3: the linear solve, then a correction on the features as float32 computes them.
    d, k = qry.shape[1], y.shape[1]
    flat = factor.solve(some_y)
    weights = LayerWeights(W_Q, W_K, *readout_weights(flat.reshape(n_heads, d, k)))
    Z32 = features(ctx, qry, W_Q, W_K, "float32")
    rows32 = Z32[keep].reshape(len(keep), -1).astype(np.float64)
    flat32, residual = flat, some_y - rows32 @ flat
    for _ in range(3):
        trial = flat32 + factor.solve(residual, refine=0)
        after = some_y - rows32 @ trial
        if not np.max(np.abs(after)) < np.max(np.abs(residual)):
            break  # features too far from those that were factorised: keep what is better
        flat32, residual = trial, after
    weights32 = LayerWeights(W_Q, W_K, *readout_weights(flat32.reshape(n_heads, d, k))).astype("float32")
    return FeatureResult(weights, weights32, FeatureReport(scale, factor.rank, factor.cond))


def distinct_examples(contexts: Array, queries: Array, y: Array) -> IntArray:
    """The first occurrence of every example; refuses one that occurs with two targets."""
    whole = queries if contexts.ndim == 2 else np.concatenate([contexts.reshape(len(queries), -1), queries], axis=1)
    keep, place = distinct_rows(whole)
    first = keep[place]
    clash = np.flatnonzero((y != y[first]).any(axis=1))
    if clash.size:
        raise AssumptionError(
            f"equal examples need equal targets; examples {first[clash[0]] + 1} and {clash[0] + 1} are equal and "
            f"differ in their targets ({clash.size} clashes in all). Drop one of each."
        )
    return keep


def _centred_rows(contexts: Array) -> Array:
    stack = contexts if contexts.ndim == 3 else contexts[None]
    centred: Array = stack - stack.mean(axis=1, keepdims=True)
    return centred.reshape(-1, stack.shape[2])


def _whitening(rows: Array) -> Array:
    """W (rank, d) with W x of second moment I over the rows; directions they hardly use are left out."""
    _, singular, right = np.linalg.svd(_squeeze(rows), full_matrices=False)
    used = singular > 1e-6 * max(float(singular[0]), 1e-300)
    if not used.any():
        return np.eye(rows.shape[1])
    # |W x|^2 averages to 1, so a score q.k over d_head random rows has unit standard deviation per row.
    whitened: Array = right[used] * (math.sqrt(len(rows) / int(used.sum())) / singular[used])[:, None]
    return whitened
