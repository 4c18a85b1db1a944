"""One attention layer over vectors, made in three ways from the same examples: saturation, random features, training.

All three give W_Q, W_K and W_V of one and the same layer, d_v = number of classes, with W_O the identity, so that they
have the same parameters and are judged by the same forward pass.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rote.data import VectorTable
from rote.data._arrays import FloatArray as Array
from rote.errors import UsageError
from rote.solvers.random_features import random_feature_layer
from rote.solvers.saturation import saturation_layer
from rote.solvers.vector_layer import LayerWeights, attention, predict
from rote.training.optim import Soap

__all__ = ["METHODS", "MadeLayer", "make", "margin", "quantised", "recall", "saturated", "train_layer"]

METHODS = ("saturation", "random_features", "train")
_SATURATED = 0.99
_RATE, _RATE_END, _BETAS = 0.02, 0.001, (0.95, 0.95)
_CHECK = 10


@dataclass(frozen=True)
class MadeLayer:
    """The weights, and how long they took."""

    weights: LayerWeights
    seconds: float
    steps: int = 0


def make(
    method: str, table: VectorTable, n_heads: int, d_head: int, *, steps: int, seed: int, stop: bool = False
) -> MadeLayer:
    """The layer by one of `METHODS`; refusals of a construction are raised. `stop` ends training at full recall."""
    rng = np.random.default_rng([seed, 1])
    before = time.perf_counter()
    if method == "train":
        weights, taken = train_layer(table, n_heads, d_head, steps=steps, rng=rng, stop=stop)
        return MadeLayer(weights, time.perf_counter() - before, taken)
    build: Callable[..., Any] = saturation_layer if method == "saturation" else random_feature_layer
    solution = build(
        np.array(table.contexts), np.array(table.queries), np.array(table.targets), n_heads=n_heads, d_head=d_head,
        rng=rng, n_classes=table.n_classes,
    )  # fmt: skip
    built: LayerWeights = solution.weights
    return MadeLayer(built, time.perf_counter() - before)


def train_layer(
    table: VectorTable, n_heads: int, d_head: int, *, steps: int, rng: np.random.Generator, stop: bool
) -> tuple[LayerWeights, int]:
    """Full-batch SOAP on cross-entropy, from Xavier-uniform weights: the last weights, or the first to recall all."""
    if table.n_classes is None:
        raise UsageError("training here is for class labels; give n_classes.")
    if steps < 1:
        raise UsageError(f"training needs at least 1 step, got {steps}.")
    d, k = table.d_model, table.n_classes
    shapes = {"W_Q": (n_heads, d_head, d), "W_K": (n_heads, d_head, d), "W_V": (n_heads, k, d)}
    leaves = []
    for shape in shapes.values():
        reach = math.sqrt(6 / (shape[1] + shape[2]))
        leaves.append(torch.from_numpy(rng.uniform(-reach, reach, size=(1, *shape)).astype(np.float32)))
    for leaf in leaves:
        leaf.requires_grad_()
    contexts = torch.from_numpy(np.array(table.contexts, dtype=np.float32))
    queries = torch.from_numpy(np.array(table.queries, dtype=np.float32))
    labels = torch.from_numpy(np.array(table.targets))
    optimiser = Soap(leaves, _BETAS)
    taken = steps
    for step in range(steps):
        logits = _logits(leaves, contexts, queries)
        if stop and step % _CHECK == 0:
            own = logits.gather(1, labels[:, None])
            if bool(((logits >= own).sum(1) == 1).all()):
                taken = step
                break
        loss = torch.nn.functional.cross_entropy(logits, labels)
        grads = torch.autograd.grad(loss, leaves)
        optimiser.step(grads, _RATE + (_RATE_END - _RATE) * step / steps)
    W_Q, W_K, W_V = (leaf.detach()[0].double().numpy() for leaf in leaves)
    W_O = np.broadcast_to(np.eye(k), (n_heads, k, k)).copy()
    return LayerWeights(W_Q, W_K, W_V, W_O), taken


def _logits(leaves: list[torch.Tensor], contexts: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
    W_Q, W_K, W_V = (leaf[0] for leaf in leaves)
    meet = torch.matmul(W_K.transpose(1, 2), W_Q)  # (H, d, d)
    probe = torch.einsum("hij,tj->thi", meet, queries)
    if contexts.ndim == 2:
        share = torch.softmax(torch.einsum("thi,ni->thn", probe, contexts), dim=-1)
        mixed = torch.matmul(share, contexts)
    else:
        share = torch.softmax(torch.bmm(probe, contexts.transpose(1, 2)), dim=-1)
        mixed = torch.bmm(share, contexts)
    return torch.einsum("thi,hki->tk", mixed, W_V)


def _leads(weights: LayerWeights, table: VectorTable) -> tuple[Array, Array]:
    logits = np.asarray(predict(weights, np.array(table.contexts), np.array(table.queries)), dtype=np.float64)
    rows = np.arange(len(logits))
    own = logits[rows, table.targets]
    others = logits.copy()
    others[rows, table.targets] = -np.inf
    return own - others.max(axis=1), logits


def recall(weights: LayerWeights, table: VectorTable) -> float:
    """The share of examples whose class is strictly ahead, in float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.mean(_leads(weights, table)[0] > 0))


def margin(weights: LayerWeights, table: VectorTable) -> float:
    """The smallest lead of a class over all others, as a multiple of the standard deviation of all scores."""
    leads, logits = _leads(weights, table)
    return float(leads.min()) / float(logits.std())


def saturated(weights: LayerWeights, table: VectorTable) -> float:
    """The share of (head, example) pairs with more than 0.99 of the attention on one row."""
    total = 0.0
    for _, share in attention(np.array(table.contexts), np.array(table.queries), weights.W_Q, weights.W_K):
        total += float((share.max(axis=-1) > _SATURATED).sum())
    return float(total / (table.n_examples * weights.W_Q.shape[0]))


def _changed(weights: LayerWeights, change: Callable[[npt.NDArray[np.floating]], Array]) -> LayerWeights:
    """The same layer with its three maps changed; W_O is a constant of the architecture."""
    return LayerWeights(change(weights.W_Q), change(weights.W_K), change(weights.W_V), weights.W_O)


def quantised(
    weights: LayerWeights, how: str, rng: np.random.Generator | None = None, size: float = 0.0
) -> LayerWeights:
    """Weights in another format: "float32", "bfloat16", "int8", "int4" (symmetric, one scale a row), or "noise".

    Noise is Gaussian, `size` times the root mean square of the map that it is added to.
    """
    if how in ("float32", "bfloat16"):
        kind = torch.float32 if how == "float32" else torch.bfloat16
        return _changed(weights, lambda w: torch.from_numpy(np.array(w)).to(kind).double().numpy())
    if how in ("int8", "int4"):
        top = 127 if how == "int8" else 7
        return _changed(weights, lambda w: _integers(np.asarray(w, dtype=np.float64), top))
    if rng is None:
        raise UsageError("noise needs a generator.")
    drawn = rng

    def noisy(w: npt.NDArray[np.floating]) -> Array:
        rms = float(np.sqrt(np.mean(np.square(w))))
        return np.asarray(w + size * rms * drawn.standard_normal(w.shape), dtype=np.float64)

    return _changed(weights, noisy)


def _integers(w: Array, top: int) -> Array:
    scale = np.abs(w).max(axis=-1, keepdims=True) / top
    scale[scale == 0] = 1.0
    return np.asarray(np.rint(w / scale) * scale, dtype=np.float64)
