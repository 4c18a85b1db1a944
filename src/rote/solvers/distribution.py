"""Distributions by one attention-only layer (Dana, Pydi, Chevaleyre 2025, Theorem 1).

Statement: if H d_h + d >= T_eps, there is an attention-only layer whose divergence from pi is at most
           d_KL(pi, L) + C eps ||W E||_2, with C = 2 sqrt(1 + ||Phi_1^-1 Phi_2||_2^2) (equation 14, with the factor 2 of
           equation 13 that its last line drops), where Phi_1 holds the features of the T_eps likely contexts as columns
           and Phi_2 those of the others.
Notation:  H = n_heads, d = d_model, d_h = d_head, W = W_U, E_t = what the residual stream of context t should be.
Source:    arXiv 2411.10115 v2.
Differs:   1. the skip connection is folded in exactly, so gamma and the limit behind it are not needed;
           2. with more features than likely contexts Phi_1^-1 is the pseudo-inverse, and if the smallest solution
              leaves the skip singular, a solution near Psi_0 = [g I | 0] is taken: the bound then has
              ||W (E - Psi_0 Phi)||_2;
           3. a context of one token needs no heads: W_E = E is the best encoder itself;
           4. beside the theorem's interpolation there is a refit: W stays, and Psi minimises the divergence over all
              contexts, which is a convex problem. Interpolation magnifies what the unlikely contexts get; the refit
              costs about eps. Its token vectors are not drawn blindly, but near the average E of the contexts that a
              token stands in.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from rote.data import DistributionTable
from rote.data._arrays import FloatArray as Array
from rote.data._arrays import IntArray
from rote.errors import AssumptionError, CapacityError
from rote.solvers.association import RandomFeatures, TokenWeights, forward
from rote.solvers.association_solve import LinearSystem, complete
from rote.solvers.distribution_refit import refit
from rote.solvers.encoder import EncoderBound
from rote.solvers.token_rank import rank_limit
from rote.solvers.vector_layer import Precision

__all__ = ["Layer", "Method", "attend", "fewest_heads"]

Method = Literal["interpolation", "refit"]

_NOISE = 0.3  # keeps informed token vectors in general position
_SCALES = (10.0, 30.0, 100.0)
"""Standard deviations of the scores, taken in turn: narrow models need sharper attention to tell contexts apart."""
_ENOUGH = 1e-7  # nats that rounding to float32 may cost before another draw is made


@dataclass(frozen=True)
class Layer:
    """The weights, and what is known about them."""

    weights: TokenWeights
    method: str
    """interpolation, refit, or embedding for contexts of one token."""
    kl64: float
    kl32: float
    C: float | None
    """Equation 14, with its factor 2; None where no context is left out."""
    norm: float
    """||W E||_2, or ||W (E - Psi_0 Phi)||_2 where the skip had to be completed."""
    cond: float
    cond_fold: float
    draws: int

    def excess(self, leftover: float) -> float:
        """The theorem's allowance over the best encoder, C eps ||W E||_2, in nats."""
        return 0.0 if self.C is None else self.C * leftover * self.norm


def fewest_heads(table: DistributionTable, n_contexts: int, d_model: int, d_head: int) -> int | None:
    """The fewest heads whose features tell the most likely contexts apart; None where no number of heads does."""
    if table.context == 1:
        return 1
    likely = table.contexts[table.likely_first[:n_contexts]]

    def enough(heads: int) -> bool:
        return rank_limit(likely, table.vocab, heads, d_model, d_head).value >= n_contexts

    low, high = 1, 1
    while not enough(high):
        low, high = high + 1, 2 * high
        if high > 2 * n_contexts + 2:
            return None
    return low + bisect_left(range(low, high), True, key=enough)


def attend(
    table: DistributionTable,
    bound: EncoderBound,
    *,
    n_heads: int,
    d_head: int,
    n_contexts: int,
    method: Method,
    rng: np.random.Generator,
    rank_one_qk: bool = False,
    tries: int | None = None,
) -> Layer:
    """An attention-only layer for the table: `n_contexts` is T_eps, the contexts that must be exact.

    Up to `tries` draws of the random parts are made and the one with the least divergence in float32 is kept; where
    nothing is left out, the first that loses no more than rounding.
    """
    if bound.W is None or bound.E is None:
        raise AssumptionError(
            f"the best encoder is approached and not reached ({bound.reason}); smooth the table to build a model."
        )
    if table.context == 1:
        return _embedding(table, bound, n_heads, d_head, rng)
    likely = table.likely_first[:n_contexts]
    limit = rank_limit(table.contexts[likely], table.vocab, n_heads, bound.d_model, d_head)
    if n_contexts > limit.value:
        raise CapacityError(
            f"Theorem 1 needs H d_head + d_model >= T_eps = {n_contexts:,}; this shape tells {limit.value:,} of these "
            f"contexts apart ({limit.reason}). Use more heads, or a larger epsilon."
        )
    W, E = _gauge(bound.W, bound.E, table)
    best: Layer | None = None
    complete_table = len(likely) == np.count_nonzero(table.prior)
    if tries is None:
        tries = 8 if complete_table and n_contexts <= 1024 else 3
    for number in range(1, tries + 1):
        scale = _SCALES[(number - 1) % len(_SCALES)]
        features = RandomFeatures(
            np.ascontiguousarray(table.contexts), table.vocab, n_heads, bound.d_model, d_head, scale, rank_one_qk, rng
        )
        if method == "refit" and not complete_table:
            features.embed = _informed(table, E, rng)
        made = _draw(table, features, W, E, likely, method, number)
        if made is None:
            continue
        if best is None or made.kl32 < best.kl32:
            best = made
        if complete_table and best.kl32 - bound.kl <= _ENOUGH:
            break
    if best is None:
        raise AssumptionError(
            f"all {tries} draws gave singular features although the rank condition holds (limit {limit.value}); "
            "use more heads, or another seed."
        )
    return best


def _gauge(W: Array, E: Array, table: DistributionTable) -> tuple[Array, Array]:
    """The same predictions W E with E white, so that the map folded into the embeddings is well conditioned."""
    left, size, right = np.linalg.svd(E, full_matrices=False)
    many = math.sqrt(table.n_contexts)
    rank = int(np.sum(size > 1e-10 * max(size[0], 1e-300)))
    white, seen = np.zeros((len(E), W.shape[1])), np.zeros_like(W)
    white[:, :rank] = many * left[:, :rank]
    seen[:, :rank] = (W @ right[:rank].T) * (size[:rank] / many)
    return seen, white


def _informed(table: DistributionTable, E: Array, rng: np.random.Generator) -> Array:
    """Token vectors (N, d): the main directions of the average E around a token, at each place, and some noise."""
    N, S, d = table.vocab, table.context, E.shape[1]
    centred = E - table.prior @ E
    parts = []
    for place in range(S):
        at = table.contexts[:, place]
        sums, mass = np.zeros((N, d)), np.bincount(at, weights=table.prior, minlength=N)
        np.add.at(sums, at, table.prior[:, None] * centred)
        parts.append(sums / (mass + 1e-4)[:, None])  # rare tokens stay near the middle
    joined = np.concatenate(parts, axis=1)
    usual = np.bincount(table.contexts.reshape(-1), weights=np.repeat(table.prior, S), minlength=N) / S
    _, _, right = np.linalg.svd(np.sqrt(usual)[:, None] * joined, full_matrices=False)
    found = joined @ right[:d].T
    made = rng.standard_normal((N, d)) * _NOISE
    size = np.sqrt(np.mean(found**2, axis=0))
    made[:, : found.shape[1]] += found / np.where(size > 0, size, 1.0)
    return made


def _draw(
    table: DistributionTable,
    features: RandomFeatures,
    W: Array,
    E: Array,
    likely: IntArray,
    method: Method,
    number: int,
) -> Layer | None:
    """Features, Psi = [G | W_O] by the method, and the fold; None for a singular draw."""
    phi = features.matrix()
    d = W.shape[1]
    goal = torch.from_numpy(E)
    rest = np.setdiff1d(np.flatnonzero(table.prior), likely)
    all_of_it = not len(rest)
    psi: Tensor | None
    C, start = None, torch.zeros((phi.shape[1], d), dtype=torch.float64)
    cond = math.nan
    if method == "refit" and not all_of_it:
        psi = refit(phi, torch.from_numpy(W), goal, table)
    else:
        top = phi[torch.from_numpy(likely)]
        # A generator of its own: the extreme singular values are a report, and must not move the draws that follow.
        system = LinearSystem(top, np.random.default_rng(number))
        if not system.bottom[0] > 1e-14 * system.top:
            return None
        cond = system.top / float(system.bottom[0])
        psi = system.near(start, goal[torch.from_numpy(likely)])
        if not _invertible(psi, W, d):
            start[:d] = torch.eye(d, dtype=torch.float64) / math.sqrt(2 * d)
            psi = system.near(start, goal[torch.from_numpy(likely)])
        if not all_of_it:
            reach = phi[torch.from_numpy(rest)] @ system.solve(torch.eye(len(top), dtype=torch.float64))
            C = 2 * math.sqrt(1 + _spectral(reach) ** 2)
    folded, _ = complete(np.asarray(psi.T.numpy(), dtype=np.float64), W, d)
    singular = np.linalg.svd(folded[:, :d], compute_uv=False)
    if not singular[-1] > 1e-12 * singular[0]:
        return None
    weights = features.fold(folded, W)
    return Layer(
        weights,
        method if not all_of_it else "interpolation",
        _divergence(table, weights, "float64"),
        _divergence(table, weights, "float32"),
        C,
        _spectral(torch.from_numpy(W) @ (goal - phi @ start).T),
        cond,
        float(singular[0] / singular[-1]),
        number,
    )


def _invertible(psi: Tensor, W: Array, d: int) -> bool:
    folded, _ = complete(np.asarray(psi.T.numpy(), dtype=np.float64), W, d)
    singular = np.linalg.svd(folded[:, :d], compute_uv=False)
    return bool(singular[-1] > 1e-7 * singular[0])


def _spectral(matrix: Tensor) -> float:
    """The largest singular value, from the smaller Gram matrix."""
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    return math.sqrt(max(0.0, float(torch.linalg.eigvalsh(gram)[-1])))


def _divergence(table: DistributionTable, weights: TokenWeights, precision: Precision) -> float:
    _, logits = forward(weights.astype(precision), table.contexts.copy(), precision)
    if not np.isfinite(logits).all():
        return math.inf
    scores = torch.from_numpy(logits.astype(np.float64))
    return table.kl(torch.log_softmax(scores, dim=1).numpy())


def _embedding(
    table: DistributionTable, bound: EncoderBound, n_heads: int, d_head: int, rng: np.random.Generator
) -> Layer:
    """Contexts of one token: the embedding is E, and the heads, which could only repeat it, write nothing."""
    assert bound.W is not None and bound.E is not None
    W, E = _gauge(bound.W, bound.E, table)
    d = W.shape[1]
    W_E = np.zeros((table.vocab, d))
    W_E[table.contexts[:, 0]] = E
    W_Q, W_K, W_V = rng.standard_normal((3, n_heads, d_head, d)) / math.sqrt(d)
    weights = TokenWeights(W_E, np.zeros((1, d)), W_Q, W_K, W_V, np.zeros((n_heads, d, d_head)), W)
    kl64, kl32 = (_divergence(table, weights, precision) for precision in ("float64", "float32"))
    return Layer(weights, "embedding", kl64, kl32, None, 0.0, 1.0, 1.0, 1)
