"""Small batches through one attention layer over two tokens, compiled by numba: one replica, Adam, whole epochs.

Models as small as those of Dana et al. are bound by the cost of calling torch: a hundred operations a step, each on a
few thousand numbers. Here a step is one loop that stays in the cache. What depends on one token alone is computed once
a token, not once a fact: with M_h = W_K^T W_Q / sqrt(d_h) and L_h = W_O W_V,

    probe = M_h x2,   A = L_h x1,   B = L_h x2     (tables over tokens),
    seen  = sum_h s_h (A_a - B_b) + B_b,   s_h = sigmoid(probe_b . (x1_a - x2_b)).

Heads stand innermost, padded with zeros to a multiple of eight, if they are narrow: a head of zeros has no gradient and
stays what it is.
Without numba (extra "fast") `suits` says no, and the loop in torch does the same, up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.training.compiled_deep import deep_kernel
from rote.training.kernels import WIDE, Floats, available, compile_loop, kernels, maps
from rote.training.recipes import Recipe
from rote.training.spec import ModelSpec

__all__ = ["Replica", "suits"]

_LEAST_STEPS = 1000
"""Steps below which compiling, or loading what was compiled before, costs more than it saves."""
_LANES = 8
_HEADS = ("W_Q", "W_K", "W_V", "W_O")


def suits(spec: ModelSpec, recipe: Recipe, steps: int) -> bool:
    """Whether this loop can train such a model so, and pays."""
    plain = spec.family in ("aot", "transformer") and spec.arch.context == 2
    if _beyond(spec):
        plain = plain and not spec.arch.gated
    drawn = recipe.optimiser == "adam" and recipe.batch is not None and recipe.draws is not None
    if not (plain and drawn and recipe.keep == "last" and not recipe.stop_when_all and steps >= _LEAST_STEPS):
        return False
    return available()


def _beyond(spec: ModelSpec) -> bool:
    """Whether there is more than one layer of attention."""
    return spec.arch.n_layers > 1 or spec.arch.d_mlp > 0


def _of_heads(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] in _HEADS


class Replica:
    """Weights and moments of one model, as the loop has them: one vector, heads innermost."""

    def __init__(self, spec: ModelSpec, weights: Mapping[str, Floats], betas: tuple[float, float]) -> None:
        arch = spec.arch
        self.spec, self.betas = spec, betas
        lanes = _LANES if spec.width < WIDE else 1
        self.heads = -(-arch.n_heads // lanes) * lanes
        self.names = sorted(spec.shapes, key=_of_heads)
        parts = [self._laid(name, weights[name]).ravel() for name in self.names]
        self.vector = np.concatenate(parts).astype(np.float32)
        self.mean, self.square = np.zeros_like(self.vector), np.zeros_like(self.vector)
        self.steps = 0
        self.shape = np.array(
            [
                arch.vocab, arch.d_model, spec.width, arch.d_head, self.heads, spec.compressed, spec.family == "aot",
                arch.n_layers, arch.d_mlp, "b_up.0" in spec.shapes,
            ],
            dtype=np.int64,
        )  # fmt: skip

    def _laid(self, name: str, tensor: Floats) -> Floats:
        """(H, k, w) becomes (k, w, H padded), and W_O, which is (H, w, k), the same."""
        if not _of_heads(name):
            return tensor
        turned = tensor.transpose(2, 1, 0) if name.startswith("W_O") else tensor.transpose(1, 2, 0)
        return np.pad(turned, ((0, 0), (0, 0), (0, self.heads - tensor.shape[0])))

    def pass_over(
        self, contexts: npt.NDArray[np.int64], targets: npt.NDArray[np.int64], batch: int, rates: Sequence[float]
    ) -> tuple[Floats, Floats]:
        """Pass once over facts (2, T) in batches; share recalled and loss of every batch, before its step."""
        right, losses = np.empty(len(rates), np.float32), np.empty(len(rates), np.float32)
        kernel = deep_kernel() if _beyond(self.spec) else _kernel()
        kernel(
            self.vector, self.mean, self.square, self.shape, np.float32(1 / math.sqrt(self.spec.arch.d_head)),
            np.ascontiguousarray(contexts[0]), np.ascontiguousarray(contexts[1]), targets, batch,
            np.asarray(rates, dtype=np.float64), self.betas[0], self.betas[1], self.steps, right, losses,
        )  # fmt: skip
        self.steps += len(rates)
        return right, losses

    def weights(self) -> dict[str, Floats]:
        """The weights as the stack has them."""
        found, at = {}, 0
        h = self.spec.arch.n_heads
        for name in self.names:
            shape = self.spec.shapes[name]
            if not _of_heads(name):
                size = math.prod(shape)
                found[name] = self.vector[at : at + size].reshape(shape).copy()
            else:
                k, w = (shape[2], shape[1]) if name.startswith("W_O") else shape[1:]
                size = k * w * self.heads
                laid = self.vector[at : at + size].reshape(k, w, self.heads)[:, :, :h]
                found[name] = np.ascontiguousarray(
                    laid.transpose(2, 1, 0) if name.startswith("W_O") else laid.transpose(2, 0, 1)
                )
            at += size
        return found


@cache
def _kernel() -> Callable[..., None]:
    exponentials, cross_entropy, adam = kernels()
    products, slopes = maps()

    def epoch(
        vector: Any, mean: Any, square: Any, shape: Any, scale: Any, first: Any, last: Any, targets: Any, batch: int,
        rates: Any, beta1: float, beta2: float, done: int, right: Any, losses: Any,
    ) -> None:  # fmt: skip
        n, d, w, k, heads = shape[0], shape[1], shape[2], shape[3], shape[4]
        compressed, beside = shape[5] > 0, shape[6] > 0
        grad = np.zeros_like(vector)
        each = k * w * heads
        starts = np.zeros(9, np.int64)
        small = k * d if compressed else 0
        for i, size in enumerate((n * d, 2 * w, small, small, n * d, each, each, each, each)):
            starts[i] = size
        ends = np.cumsum(starts)
        e = vector[: ends[0]].reshape(n, d)
        place = vector[ends[0] : ends[1]].reshape(2, w)
        narrow = vector[ends[1] : ends[2]].reshape(small // d, d)
        widen = vector[ends[2] : ends[3]].reshape(d, small // d)
        u = vector[ends[3] : ends[4]].reshape(n, d)
        wq = vector[ends[4] : ends[5]].reshape(k, w, heads)
        wk = vector[ends[5] : ends[6]].reshape(k, w, heads)
        wv = vector[ends[6] : ends[7]].reshape(k, w, heads)
        wo = vector[ends[7] : ends[8]].reshape(k, w, heads)
        d_e = grad[: ends[0]].reshape(n, d)
        d_place = grad[ends[0] : ends[1]].reshape(2, w)
        d_narrow = grad[ends[1] : ends[2]].reshape(small // d, d)
        d_widen = grad[ends[2] : ends[3]].reshape(d, small // d)
        d_u = grad[ends[3] : ends[4]].reshape(n, d)
        d_q = grad[ends[4] : ends[5]].reshape(k, w, heads)
        d_k = grad[ends[5] : ends[6]].reshape(k, w, heads)
        d_v = grad[ends[6] : ends[7]].reshape(k, w, heads)
        d_o = grad[ends[7] : ends[8]].reshape(k, w, heads)
        meet, lift = np.empty((w, w, heads), np.float32), np.empty((w, w, heads), np.float32)
        d_meet, d_lift = np.empty((w, w * heads), np.float32), np.empty((w, w * heads), np.float32)
        more = np.empty((w, w * heads), np.float32)
        flat_meet, flat_lift = meet.reshape(w, w * heads), lift.reshape(w, w * heads)
        slope_meet, slope_lift = d_meet.reshape(w, w, heads), d_lift.reshape(w, w, heads)
        x1, x2, d_1, d_2 = (
            np.empty((n, w), np.float32), np.empty((n, w), np.float32), np.empty((n, w), np.float32),
            np.empty((n, w), np.float32),
        )  # fmt: skip
        back = np.empty((n, w), np.float32)
        wide = np.empty((n, d), np.float32)
        probe, at_1, at_2 = (
            np.empty((n, w * heads), np.float32), np.empty((n, w * heads), np.float32),
            np.empty((n, w * heads), np.float32),
        )  # fmt: skip
        d_probe, d_at_1, d_at_2 = np.empty_like(probe), np.empty_like(probe), np.empty_like(probe)
        own = np.empty((n, w), np.float32)
        share = np.empty(batch * heads, np.float32)
        logits = np.empty(batch * n, np.float32)
        power = np.empty(max(batch * heads, batch * n), np.int32)
        whole = power.view(np.float32)
        seen, d_seen = np.empty((batch, w), np.float32), np.empty((batch, w), np.float32)
        y, d_y = np.empty((batch, d), np.float32), np.empty((batch, d), np.float32)
        score, picked = np.empty(heads, np.float32), np.empty(batch, np.float32)
        for step in range(right.shape[0]):
            begin = step * batch
            size = min(batch, targets.shape[0] - begin)
            # Tables over tokens.
            if compressed:
                np.dot(e, narrow.T, x1)
            else:
                x1[:] = e
            for t in range(n):
                for i in range(w):
                    x2[t, i] = x1[t, i] + place[1, i]
                    x1[t, i] += place[0, i]
            products(wk, wq, meet, scale)
            products(wo, wv, lift, np.float32(1.0))
            np.dot(x2, flat_meet, probe)
            np.dot(x1, flat_lift, at_1)
            np.dot(x2, flat_lift, at_2)
            for t in range(n):
                for i in range(w):
                    total = np.float32(0.0)
                    for h in range(heads):
                        total += at_2[t, i * heads + h]
                    own[t, i] = total
            # The facts, forwards.
            for f in range(size):
                a, b = first[begin + f], last[begin + f]
                here = share[f * heads : (f + 1) * heads]
                here[:] = 0.0
                for i in range(w):
                    between = x2[b, i] - x1[a, i]
                    row = probe[b, i * heads : (i + 1) * heads]
                    for h in range(heads):
                        here[h] += between * row[h]
            exponentials(share[: size * heads], whole, power)
            for i in range(size * heads):
                share[i] = np.float32(1.0) / (np.float32(1.0) + share[i])
            for f in range(size):
                a, b = first[begin + f], last[begin + f]
                here = share[f * heads : (f + 1) * heads]
                for i in range(w):
                    total = own[b, i]
                    one, two = at_1[a, i * heads : (i + 1) * heads], at_2[b, i * heads : (i + 1) * heads]
                    for h in range(heads):
                        total += here[h] * (one[h] - two[h])
                    seen[f, i] = total
            if compressed:
                np.dot(seen[:size], widen.T, y[:size])
            else:
                y[:size] = seen[:size]
            for f in range(size):
                b = last[begin + f]
                for i in range(d):
                    y[f, i] += e[b, i] if beside else x2[b, i]
            # The loss, and its slope in the place of the logits.
            table = logits[: size * n].reshape(size, n)
            np.dot(y[:size], u.T, table)
            part = targets[begin : begin + size]
            losses[step], right[step] = cross_entropy(table, part, picked, whole, power)
            # Backwards: readout, facts, tables, maps.
            np.dot(table.T, y[:size], d_u)
            np.dot(table, u, d_y[:size])
            if compressed:
                np.dot(d_y[:size].T, seen[:size], d_widen)
                np.dot(d_y[:size], widen, d_seen[:size])
            else:
                d_seen[:size] = d_y[:size]
            d_e[:] = 0.0
            d_1[:] = 0.0
            d_2[:] = 0.0
            d_probe[:] = 0.0
            d_at_1[:] = 0.0
            d_at_2[:] = 0.0
            for f in range(size):
                a, b = first[begin + f], last[begin + f]
                here = share[f * heads : (f + 1) * heads]
                if beside:
                    for i in range(d):
                        d_e[b, i] += d_y[f, i]
                else:
                    for i in range(d):
                        d_2[b, i] += d_y[f, i]
                score[:] = 0.0
                for i in range(w):
                    g = d_seen[f, i]
                    one, two = at_1[a, i * heads : (i + 1) * heads], at_2[b, i * heads : (i + 1) * heads]
                    for h in range(heads):
                        score[h] += g * (one[h] - two[h])
                for h in range(heads):
                    score[h] *= here[h] * (np.float32(1.0) - here[h])
                for i in range(w):
                    g = d_seen[f, i]
                    between = x1[a, i] - x2[b, i]
                    held = slice(i * heads, (i + 1) * heads)
                    one, two, asked, row = d_at_1[a, held], d_at_2[b, held], d_probe[b, held], probe[b, held]
                    total = np.float32(0.0)
                    for h in range(heads):
                        one[h] += g * here[h]
                    for h in range(heads):
                        two[h] += g - g * here[h]
                    for h in range(heads):
                        asked[h] += between * score[h]
                    for h in range(heads):
                        total += score[h] * row[h]
                    d_1[a, i] += total
                    d_2[b, i] -= total
            np.dot(x2.T, d_probe, d_meet)
            np.dot(x1.T, d_at_1, d_lift)
            np.dot(x2.T, d_at_2, more)
            for j in range(w):
                for i in range(w * heads):
                    d_lift[j, i] += more[j, i]
            np.dot(d_at_1, flat_lift.T, back)
            d_1 += back
            np.dot(d_at_2, flat_lift.T, back)
            d_2 += back
            np.dot(d_probe, flat_meet.T, back)
            d_2 += back
            slopes(slope_meet, wk, wq, d_k, d_q, scale)
            slopes(slope_lift, wo, wv, d_o, d_v, np.float32(1.0))
            d_place[:] = 0.0
            for t in range(n):
                for i in range(w):
                    d_place[0, i] += d_1[t, i]
                    d_place[1, i] += d_2[t, i]
                    d_1[t, i] += d_2[t, i]
            if compressed:
                np.dot(d_1.T, e, d_narrow)
                np.dot(d_1, narrow, wide)
                d_e += wide
            else:
                d_e += d_1
            adam(vector, grad, mean, square, rates[step], beta1, beta2, done + step + 1)

    return compile_loop(epoch)
