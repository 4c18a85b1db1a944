"""Exact association by one attention-only layer (Dana, Pydi, Chevaleyre 2025, Corollary 1).

Statement: for any T_0 distinct contexts of length S over N tokens, each with one target token, and any d >= 2, an
           attention-only layer of width d with H heads of width d_h <= d recalls all of them if H d_h + d >= T_0.
Notation:  T_0 = n_facts, N = vocab, S = context, d = d_model, H = n_heads, d_h = d_head, P = H d_h + d.
Source:    arXiv 2411.10115 v2.
Differs:   1. the skip connection is folded in exactly instead of drowned (no limit lambda -> inf);
           2. the statement needs more than it says: heads see tokens and positions only through their attention
              masses, so the features have a smaller rank for small vocabularies (`rank_limit`, checked first);
           3. the target vectors are chosen after the features are known, so that the solve does not run along the
              nearly singular directions of a square system; that is what makes full load safe in float32.

The layer: x_s = W_E[t_s] + W_pos[s]; y = x_S + sum_h W_O^h W_V^h sum_s a^h_s x_s with a^h the softmax over all S
positions of x_S^T W_Q^hT W_K^h x_s (no scaling); logits = W_U y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import torch

from rote.data._arrays import FloatArray as Array
from rote.data._arrays import IntArray
from rote.errors import AssumptionError, CapacityError, UsageError
from rote.solvers.association_solve import Attempt, Code, solve_association, target_code
from rote.solvers.token_rank import RankLimit, check_contexts, rank_limit
from rote.solvers.vector_layer import Precision, RealArray

__all__ = [
    "AssociationReport",
    "AssociationResult",
    "Draw",
    "RandomFeatures",
    "RankLimit",
    "TokenWeights",
    "associate",
    "forward",
    "rank_limit",
]


_TORCH = {"float64": torch.float64, "float32": torch.float32}
_CHUNK_NUMBERS = 4_000_000
_SCALE = 10.0  # standard deviation of the scores


@dataclass(frozen=True)
class TokenWeights:
    """W_E (N, d); W_pos (S, d); W_Q, W_K, W_V (H, d_head, d); W_O (H, d, d_head); W_U (N, d)."""

    W_E: RealArray
    W_pos: RealArray
    W_Q: RealArray
    W_K: RealArray
    W_V: RealArray
    W_O: RealArray
    W_U: RealArray

    def stored(self, *, rank_one_qk: bool) -> dict[str, RealArray]:
        """By name; of W_Q and W_K only their one nonzero row where they have no other."""
        kept = {"W_Q": self.W_Q[:, :1], "W_K": self.W_K[:, :1]} if rank_one_qk else {}
        return {**vars(self), **kept}

    def astype(self, precision: Precision) -> TokenWeights:
        return TokenWeights(*(np.asarray(getattr(self, f.name), dtype=np.dtype(precision)) for f in fields(self)))


@dataclass(frozen=True)
class Draw:
    """One attempt: random features, their condition, and how its weights did."""

    cond: float  # of the feature matrix
    cond_fold: float  # of the map G folded into the embeddings
    accuracy64: float
    accuracy32: float
    margin64: float
    margin32: float


@dataclass(frozen=True)
class AssociationReport:
    """How the kept weights were found, and what they do when run entirely in each precision."""

    limit: RankLimit
    code: Code
    draws: tuple[Draw, ...]
    kept: int
    error64: float  # largest deviation of y from the target vector, in the coordinates W_U reads
    error32: float
    max_weight: float
    notes: tuple[str, ...]  # what a reader should know: failed draws, facts lost in float32

    @property
    def best(self) -> Draw:
        return self.draws[self.kept]


@dataclass(frozen=True)
class AssociationResult:
    weights: TokenWeights
    report: AssociationReport


def associate(
    contexts: npt.ArrayLike,
    targets: npt.ArrayLike,
    *,
    vocab: int,
    n_heads: int,
    d_model: int,
    d_head: int,
    rng: np.random.Generator,
    rank_one_qk: bool = False,
) -> AssociationResult:
    """Weights that send every context (T, S) to its target (T,), by Corollary 1.

    Up to 24 draws of the random parts (4 for large shapes) are made; the first whose float32 margin is at
    least half its float64 margin is accepted at once, otherwise the one with the best float32 recall, then margin, is
    kept. `rank_one_qk`: W_Q and W_K have one nonzero row.
    """
    tries = 4 if n_heads * d_head + d_model > 1024 else 24
    if min(n_heads, d_model, d_head, vocab) < 1:
        raise UsageError("vocab, n_heads, d_model and d_head must be at least 1.")
    ctx = check_contexts(contexts, vocab)
    goal = _check_targets(targets, len(ctx), vocab)
    answers, label = np.unique(goal, return_inverse=True)
    if d_model == 1 and len(answers) > 2:
        raise CapacityError(f"Corollary 1 needs d_model >= 2 for {len(answers)} different targets; got d_model = 1.")
    limit = rank_limit(ctx, vocab, n_heads, d_model, d_head)
    if len(ctx) > limit.value:
        raise CapacityError(
            f"this shape holds {limit.value} of these facts ({limit.reason}); got {len(ctx)}. The corollary's "
            f"H d_head + d_model is {limit.nominal}. Use more heads"
            + (", or a wider d_head." if limit.value == limit.nominal else ", or the argmax fit.")
        )

    kept: tuple[tuple[float, float], TokenWeights, float, float] | None = None
    draws: list[Draw] = []
    best = -1
    code, kind = target_code(len(answers), d_model, rng)
    for _ in range(tries):
        features = RandomFeatures(ctx, vocab, n_heads, d_model, d_head, _SCALE, rank_one_qk, rng)
        attempt = solve_association(features.matrix(), d_model, code, label, kind, rng)
        if attempt is None:
            draws.append(Draw(math.inf, math.inf, 0.0, 0.0, -math.inf, -math.inf))
            continue
        W_U = np.zeros((vocab, d_model))
        W_U[answers] = attempt.unembedding  # tokens that are never a target keep logit 0
        weights = features.fold(attempt.psi, W_U)
        results = [_measure(weights, ctx, goal, attempt, p) for p in ("float64", "float32")]
        (acc64, margin64, err64), (acc32, margin32, err32) = results
        draws.append(Draw(attempt.cond, attempt.cond_fold, acc64, acc32, margin64, margin32))
        if kept is None or (acc32, margin32) > kept[0]:
            kept, best = ((acc32, margin32), weights, err64, err32), len(draws) - 1
        if acc32 == 1.0 and margin32 >= 0.5 * margin64:
            break
    if kept is None:
        raise AssumptionError(
            f"all {tries} draws gave singular features although the rank condition holds (limit {limit.value}, "
            f"{len(ctx)} facts). Use more heads."
        )
    _, weights, err64, err32 = kept
    report = AssociationReport(
        limit=limit,
        code=kind,
        draws=tuple(draws),
        kept=best,
        error64=err64,
        error32=err32,
        max_weight=max(float(np.max(np.abs(getattr(weights, f.name)))) for f in fields(weights)),
        notes=_notes(draws, best, len(ctx), len(ctx) == features.width),
    )
    return AssociationResult(weights, report)


def _notes(draws: list[Draw], kept: int, n_facts: int, square: bool) -> tuple[str, ...]:
    notes = []
    if len(draws) > 1:
        worst = max(d.cond for d in draws)
        notes.append(f"{len(draws)} draws were made, draw {kept} was kept; the worst had condition {worst:.1e}.")
    best = draws[kept]
    for name, accuracy in (("float64", best.accuracy64), ("float32", best.accuracy32)):
        if accuracy < 1.0:
            lost = round((1 - accuracy) * n_facts)
            why = "the system is exactly square: drop 2 % of the facts or add a head" if square else "add a head"
            notes.append(f"{name} loses {lost} of {n_facts} facts (condition {best.cond:.1e}); {why}.")
    return tuple(notes)


def _check_targets(targets: npt.ArrayLike, n_facts: int, vocab: int) -> IntArray:
    raw = np.asarray(targets)
    if raw.shape != (n_facts,) or not np.issubdtype(raw.dtype, np.integer):
        raise UsageError(f"need targets ({n_facts},) of integer token ids; got {raw.dtype} {raw.shape}.")
    if raw.min() < 0 or raw.max() >= vocab:
        raise UsageError(f"targets must lie in 0..{vocab - 1}; found {raw.min()}..{raw.max()}.")
    return raw.astype(np.int64)


class RandomFeatures:
    """Step 1: random embeddings and heads, and their features Phi (T, P) = [x_S | W_V^h sum_s a^h_s x_s]."""

    def __init__(
        self,
        contexts: IntArray,
        vocab: int,
        n_heads: int,
        d: int,
        d_head: int,
        scale: float,
        rank_one: bool,
        rng: np.random.Generator,
    ) -> None:
        self.contexts, self.d, self.d_head, self.n_heads = contexts, d, d_head, n_heads
        self.d_value = min(d, d_head)
        self.width = d + n_heads * self.d_value
        self.embed = rng.standard_normal((vocab, d))
        self.position = rng.standard_normal((contexts.shape[1], d))
        rank = 1 if rank_one else d_head
        # Coordinates of x_s have variance 2, so this makes the standard deviation of a score `scale`.
        size = math.sqrt(scale / (2 * d * math.sqrt(rank)))
        self.query, self.key = np.zeros((n_heads, d_head, d)), np.zeros((n_heads, d_head, d))
        self.query[:, :rank] = size * rng.standard_normal((n_heads, rank, d))
        self.key[:, :rank] = size * rng.standard_normal((n_heads, rank, d))
        if self.d_value == d:
            self.value = np.tile(np.eye(d), (n_heads, 1, 1))
        else:
            self.value = np.linalg.qr(rng.standard_normal((n_heads, d, self.d_value)))[0].transpose(0, 2, 1)

    def matrix(self) -> torch.Tensor:
        """Phi, computed a chunk of facts at a time with scores x_s . (W_K^T W_Q x_S)."""
        ctx = torch.tensor(self.contexts)
        embed, position = torch.from_numpy(self.embed), torch.from_numpy(self.position)
        n_facts, length = ctx.shape
        joint = torch.from_numpy(self.key).transpose(1, 2) @ torch.from_numpy(self.query)  # (H, d, d)
        joint = joint.reshape(self.n_heads * self.d, self.d)
        value = torch.from_numpy(np.ascontiguousarray(self.value))
        phi = torch.empty((n_facts, self.width), dtype=torch.float64)
        phi[:, : self.d] = embed[ctx[:, -1]] + position[-1]
        step = max(1, _CHUNK_NUMBERS // (max(self.n_heads, length) * self.d + self.n_heads * length))
        for start in range(0, n_facts, step):
            part = slice(start, min(start + step, n_facts))
            x = embed[ctx[part]] + position
            asked = (x[:, -1] @ joint.T).reshape(len(x), self.n_heads, self.d)
            weights = torch.softmax(asked @ x.transpose(1, 2), dim=2)  # (t, H, S)
            mixed = weights @ x
            if self.d_value < self.d:
                mixed = torch.bmm(mixed.transpose(0, 1), value.transpose(1, 2)).transpose(0, 1)
            phi[part, self.d :] = mixed.reshape(len(x), -1)
        return phi

    def fold(self, psi: Array, W_U: Array) -> TokenWeights:
        """Step 4: fold G in exactly: with x = G x', scores and values stay as they are and the skip becomes G x'."""
        G = psi[:, : self.d]
        heads = psi[:, self.d :].reshape(self.d, self.n_heads, self.d_value).transpose(1, 0, 2)
        W_V, W_O = np.zeros((self.n_heads, self.d_head, self.d)), np.zeros((self.n_heads, self.d, self.d_head))
        stacked = np.concatenate([m.reshape(-1, self.d) for m in (self.query, self.key, self.value)])
        unfolded = np.linalg.solve(G.T, stacked.T).T
        unfolded += np.linalg.solve(G.T, (stacked - unfolded @ G).T).T
        size = self.n_heads * self.d_head
        W_Q = unfolded[:size].reshape(self.n_heads, self.d_head, self.d)
        W_K = unfolded[size : 2 * size].reshape(self.n_heads, self.d_head, self.d)
        W_V[:, : self.d_value] = unfolded[2 * size :].reshape(self.n_heads, self.d_value, self.d)
        W_O[:, :, : self.d_value] = heads
        # Each head's value and output may trade a factor; sharing it evenly keeps the largest weight small.
        ratio = np.linalg.norm(W_O, axis=(1, 2)) / np.maximum(np.linalg.norm(W_V, axis=(1, 2)), 1e-300)
        share = np.sqrt(np.where(ratio > 0, ratio, 1.0))[:, None, None]
        return TokenWeights(self.embed @ G.T, self.position @ G.T, W_Q, W_K, W_V * share, W_O / share, W_U)


def forward(
    weights: TokenWeights, contexts: npt.ArrayLike, precision: Precision = "float64"
) -> tuple[RealArray, RealArray]:
    """The whole forward pass in that precision: y (T, d) and logits (T, N) at the last position.

    Scores are taken as x_s . (W_K^T W_Q x_S) and values as W_V (sum_s a_s x_s): no keys or values per position.
    """
    kind = _TORCH[precision]
    W_E, W_pos, W_Q, W_K, W_V, W_O, W_U = (
        torch.from_numpy(np.ascontiguousarray(getattr(weights, f.name))).to(kind) for f in fields(weights)
    )
    ctx = torch.from_numpy(np.ascontiguousarray(contexts, dtype=np.int64))
    n_facts, length = ctx.shape
    n_heads, d_head, d = W_Q.shape
    out = W_O.permute(0, 2, 1).reshape(n_heads * d_head, d)
    y = torch.empty((n_facts, d), dtype=kind)
    step = max(1, _CHUNK_NUMBERS // (n_heads * (max(d, d_head) + length) + length * d))
    for start in range(0, n_facts, step):
        part = slice(start, min(start + step, n_facts))
        x = W_E[ctx[part]] + W_pos
        asked = (x[:, -1] @ W_Q.reshape(-1, d).T).reshape(-1, n_heads, d_head)
        asked = torch.bmm(asked.transpose(0, 1), W_K).transpose(0, 1)  # (t, H, d)
        mixed = torch.softmax(asked @ x.transpose(1, 2), dim=2) @ x
        values = torch.bmm(mixed.transpose(0, 1), W_V.transpose(1, 2)).transpose(0, 1)
        y[part] = x[:, -1] + values.reshape(len(x), -1) @ out
    result: tuple[RealArray, RealArray] = (y.numpy(), (y @ W_U.T).numpy())
    return result


def _measure(
    weights: TokenWeights, contexts: IntArray, goal: IntArray, attempt: Attempt, precision: Precision
) -> tuple[float, float, float]:
    """Recall (ties count as lost), smallest margin, and largest deviation of y from its target vector."""
    y, logits = forward(weights.astype(precision), contexts, precision)
    if not np.isfinite(y).all():
        return 0.0, -math.inf, math.inf
    error = float(np.max(np.abs((y.astype(np.float64) - attempt.goal) @ attempt.read)))
    logits = logits.astype(np.float64)
    rows = np.arange(len(goal))
    own = logits[rows, goal]
    logits[rows, goal] = -np.inf
    margins = own - logits.max(axis=1)
    return float(np.mean(margins > 0)), float(margins.min()), error
