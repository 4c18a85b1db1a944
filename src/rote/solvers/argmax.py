"""The argmax fit: random attention heads, and one convex problem for what they write.

Model:     x_s = W_E[t_s] + W_pos[s];  y = x_S + sum_h W_O^h W_V^h sum_s a^h_s x_s;  logits = W_U y at the last
           position, a^h = softmax over s of x_S^T W_Q^T W_K x_s.
Method:    W_E, W_pos, W_Q, W_K, W_V are drawn at random and fixed, the skip x_S is left as it is, and W_O (and, if that
           is not enough, W_U with it) minimises the cross-entropy of the facts: see ``convex``.
Vocabulary: only the tokens that occur as targets compete in the fit. Every other row of W_U is the mean of the target
           rows, so its logit is the mean of theirs and loses wherever the right target wins.
Counting:  d (S + 2N + 4 d_h H) parameters, or d (S + 2N + 2 (d_h + 1) H) with rank-1 queries and keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rote.solvers.codes import discriminant_codes, hinted_embeddings, unit_rows
from rote.solvers.convex import Progress, ReadoutFit, ReadoutProblem, tally
from rote.solvers.record import Advance, still

Weights = dict[str, NDArray[np.floating]]
_ATTENTION = ("W_E", "W_pos", "W_Q", "W_K", "W_V")


@dataclass(frozen=True)
class FitResult:
    """Weights as deployed, and what the deployed model gets wrong in its own precision.

    ``fragile`` counts facts that are right, but by less than twice the rounding seen on their row: another order of
    summation might lose them.
    """

    weights: Weights = field(repr=False)
    errors: int
    fragile: int
    margin: float
    iterations: int
    readout: ReadoutFit = field(repr=False)


class AttentionFeatures:
    """W_V^h sum_s a_s x_s of every head, (rows, H d_h), in the given precision, a chunk of rows at a time."""

    def __init__(self, weights: Weights, contexts: NDArray[np.int64], dtype: torch.dtype = torch.float32) -> None:
        w = {name: torch.as_tensor(np.asarray(weights[name])).to(dtype) for name in _ATTENTION}
        self.contexts = torch.as_tensor(contexts)
        context = self.contexts.shape[1]
        self.n_heads, self.d_head, d_model = w["W_V"].shape
        self.d_key = w["W_Q"].shape[1]
        self.embed, self.pos, self.value = w["W_E"], w["W_pos"], w["W_V"]
        self.narrow = 4 * max(self.d_head, self.d_key) <= d_model
        if self.narrow:
            # Few numbers a head: look queries, keys and values up by token and by position.
            maps = (w[name].reshape(-1, d_model).T for name in ("W_Q", "W_K", "W_V"))
            self.tables = [(self.embed @ m, self.pos @ m) for m in maps]
            row_size = context * self.n_heads * (2 * self.d_head + 2 * self.d_key)
        else:
            # Wide heads: map each distinct last token's query back to the stream, once.
            last, self.last = torch.unique(self.contexts[:, -1], return_inverse=True)
            queries = torch.einsum("hed,nd->hne", w["W_Q"], self.embed[last] + self.pos[-1])
            self.back = torch.bmm(queries, w["W_K"]).transpose(0, 1).contiguous()
            row_size = 3 * self.n_heads * max(d_model, context)
        self.piece = max(16, min(4096, 2**24 // row_size))

    @property
    def n_features(self) -> int:
        """H d_h."""
        return self.n_heads * self.d_head

    def __call__(self, start: int, stop: int) -> Tensor:
        return torch.cat([self._rows(at, min(at + self.piece, stop)) for at in range(start, stop, self.piece)])

    def offsets(self) -> Tensor:
        """The skip x_S of every row."""
        return self.embed[self.contexts[:, -1]] + self.pos[-1]

    def _rows(self, start: int, stop: int) -> Tensor:
        tokens = self.contexts[start:stop]
        n_rows, context = tokens.shape
        if self.narrow:
            (q_e, q_p), (k_e, k_p), (v_e, v_p) = self.tables
            query = (q_e[tokens[:, -1]] + q_p[-1]).view(n_rows, 1, self.n_heads, self.d_key)
            key = (k_e[tokens] + k_p).view(n_rows, context, self.n_heads, self.d_key)
            attention = torch.softmax(key.mul_(query).sum(-1), 1)
            value = (v_e[tokens] + v_p).view(n_rows, context, self.n_heads, self.d_head)
            return value.mul_(attention[..., None]).sum(1).reshape(n_rows, -1)
        x = self.embed[tokens] + self.pos
        scores = torch.bmm(self.back[self.last[start:stop]], x.transpose(1, 2))
        mixed = torch.bmm(torch.softmax(scores, -1), x)
        out = torch.bmm(mixed.transpose(0, 1), self.value.transpose(1, 2))
        return out.transpose(0, 1).reshape(n_rows, -1)


def target_frame(n_targets: int, d_model: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Directions for the targets, centred: a polygon at d = 2, orthonormal if they fit, random unit rows otherwise."""
    if d_model == 1:
        rows = np.linspace(-1.0, 1.0, n_targets)[:, None]
    elif d_model == 2:
        angle = 2.0 * np.pi * np.arange(n_targets) / n_targets
        rows = np.stack([np.cos(angle), np.sin(angle)], 1)
    elif n_targets <= d_model:
        rows = np.linalg.qr(rng.standard_normal((d_model, n_targets)))[0].T
    else:
        rows = rng.standard_normal((n_targets, d_model))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows *= np.sqrt(d_model)
    return rows - rows.mean(0) if n_targets > 1 else rows


def random_heads(
    vocab: int,
    context: int,
    n_heads: int,
    d_model: int,
    d_head: int,
    rng: np.random.Generator,
    *,
    rank1: bool = False,
    scale: tuple[float, float] | None = None,
) -> Weights:
    """Random W_E, W_pos, W_Q, W_K, W_V, in float64. The score scales of the heads are log-uniform in ``scale``."""
    if scale is None:
        # Saturated heads make features independent, but a lone one maps contexts that differ elsewhere to one point.
        scale = (3.0, 30.0) if n_heads >= 8 else (0.5, 2.0)
    embed = 0.1
    d_key = 1 if rank1 else d_head
    scales = np.exp(rng.uniform(np.log(scale[0]), np.log(scale[1]), n_heads))
    # x has entries of variance 2 embed^2, so a raw score has standard deviation 2 embed^2 d sqrt(d_key).
    gain = np.sqrt(scales / (2.0 * embed**2 * d_model * np.sqrt(d_key)))[:, None, None]
    if d_head == d_model:
        value = np.broadcast_to(np.eye(d_model), (n_heads, d_model, d_model))
    else:
        value = np.linalg.qr(rng.standard_normal((n_heads, d_model, d_head)))[0].transpose(0, 2, 1)
    return {
        "W_E": embed * rng.standard_normal((vocab, d_model)),
        "W_pos": embed * rng.standard_normal((context, d_model)),
        "W_Q": gain * rng.standard_normal((n_heads, d_key, d_model)),
        "W_K": gain * rng.standard_normal((n_heads, d_key, d_model)),
        "W_V": value / embed,
    }


class _Deployed:
    """The whole model in one precision; logits of the targets in use, and of all other tokens, whose rows are zero."""

    def __init__(
        self, weights: Weights, contexts: NDArray[np.int64], used: NDArray[np.int64], dtype: torch.dtype
    ) -> None:
        self.features = AttentionFeatures(weights, contexts, dtype)
        self.out = torch.as_tensor(weights["W_O"]).to(dtype).permute(0, 2, 1).reshape(self.features.n_features, -1)
        rows = torch.as_tensor(weights["W_U"][used]).to(dtype)
        self.unembed = torch.cat([rows, torch.zeros_like(rows[:1])])
        self.offsets = self.features.offsets()

    def logits(self, start: int, stop: int) -> Tensor:
        return (self.offsets[start:stop] + self.features(start, stop) @ self.out) @ self.unembed.T


def recall(
    weights: Weights, contexts: NDArray[np.int64], targets: NDArray[np.int64], dtype: torch.dtype
) -> tuple[int, int, float]:
    """Facts lost, facts right by less than twice their row's rounding, and the smallest margin, in ``dtype``."""
    used, classes = np.unique(targets, return_inverse=True)
    model = _Deployed(weights, contexts, used, dtype)
    exact = _Deployed(weights, contexts, used, torch.float64)
    lost, fragile, margin = 0, 0, float("inf")
    for start in range(0, len(targets), 2048):
        stop = min(start + 2048, len(targets))
        target = torch.as_tensor(classes[start:stop])[:, None]
        logits = model.logits(start, stop)
        part = tally(logits, exact.logits(start, stop), target)
        lost, fragile, margin = lost + part[0], fragile + part[1], min(margin, part[2])
    return lost, fragile, margin


def fit_attention(
    contexts: NDArray[np.int64],
    targets: NDArray[np.int64],
    vocab: int,
    n_heads: int,
    d_model: int,
    d_head: int,
    rng: np.random.Generator,
    *,
    rank1: bool = False,
    joint: bool = True,
    dtype: torch.dtype = torch.float32,
    partial: bool = True,
    progress: Progress | None = None,
    advance: Advance = still,
) -> FitResult:
    """Fit one attention layer to the facts; ``errors`` of the result says whether it holds them all.

    Contexts must be distinct where targets differ. ``rank1`` stores W_Q and W_K with one row a head. ``joint`` lets W_U
    be fitted too once the convex problem has stopped short of all facts; it never runs when W_O alone suffices.
    Without ``partial`` a fit that loses facts is not run once more to see which.
    """
    random = random_heads(vocab, contexts.shape[1], n_heads, d_model, d_head, rng, rank1=rank1)
    used, classes = np.unique(targets, return_inverse=True)
    # What a single token tells about the answer goes into its embedding; only the rest is left to W_O.
    sketch = unit_rows(rng.standard_normal((len(used), d_model)))
    rows = hinted_embeddings(contexts, classes.astype(np.int64), sketch, vocab, rng, noise=0.5)
    random["W_E"] = rows * (float(np.linalg.norm(random["W_E"])) / np.sqrt(vocab))
    coarse = dtype not in (torch.float64, torch.float32)
    working = torch.float32 if coarse else dtype

    def stored(value: NDArray[np.floating]) -> NDArray[np.floating]:
        """The numbers as a file in ``dtype`` would hold them."""
        rounded: NDArray[np.floating] = torch.as_tensor(value).to(dtype).to(working).numpy()
        return rounded

    weights: Weights = {name: stored(value) for name, value in random.items()}
    features = AttentionFeatures(weights, contexts, working)
    # A lone target is fitted against its own opposite, so that it beats the zero rows of the other tokens.
    frame = target_frame(max(len(used), 2), d_model, rng)
    problem = ReadoutProblem(features, classes.astype(np.int64), frame, features.offsets().numpy(), advance=advance)
    if len(used) > 2:
        chosen = discriminant_codes(problem.white, classes.astype(np.int64), len(used), d_model, rng)
        problem.unembed = torch.as_tensor(stored(chosen - chosen.mean(0)), dtype=torch.float32)

    def deploy(weight: NDArray[np.float64], unembed: NDArray[np.float32]) -> Weights:
        rows = unembed.astype(np.float64)
        full = np.zeros((vocab, d_model))
        full[used] = (rows - rows.mean(0))[: len(used)]
        heads = np.ascontiguousarray(weight.reshape(d_model, n_heads, d_head).transpose(1, 0, 2))
        return weights | {"W_O": stored(heads), "W_U": stored(full)}

    def check(weight: NDArray[np.float64], unembed: NDArray[np.float32]) -> int:
        lost, fragile, _ = recall(deploy(weight, unembed), contexts, targets, dtype)
        return lost if coarse else lost + fragile

    fit = problem.solve(joint=joint, check=check, progress=progress)
    final = deploy(fit.weight, fit.unembed)
    if fit.errors and not partial:
        return FitResult(final, fit.errors, 0, float("-inf"), fit.iterations, fit)
    lost, fragile, margin = recall(final, contexts, targets, dtype)
    return FitResult(final, lost, fragile, margin, fit.iterations, fit)
