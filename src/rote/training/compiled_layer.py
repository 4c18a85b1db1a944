"""Small batches through the layer of Mahdavi et al., compiled by numba: one replica, Adam, some steps at a time.

With asked = W_in q + b + p_0, rows r_1, ..., r_n and s_i = b + p_i, head h scores row i with

    asked^T A_h (W_in r_i + s_i),     A_h = W_Q^T W_K / sqrt(d).

With contexts of their own the rows are never embedded: A_h [W_in | s] is made once a step, all queries go through it in
one product, and an example's own rows are met where they lie. One context for all is in `compiled_shared`.
Without numba (extra "fast") the loop in torch does the same, up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.training.compiled_shared import shared_kernel
from rote.training.kernels import Floats, available, compile_loop, kernels, split_layer
from rote.training.recipes import Recipe
from rote.training.spec import ModelSpec
from rote.training.tables import VectorStack

__all__ = ["LayerReplica", "suits"]

_LEAST_STEPS = 1000
"""Steps below which compiling, or loading what was compiled before, costs more than it saves."""


def suits(facts: VectorStack, recipe: Recipe, steps: int) -> bool:
    """Whether this loop can train on such examples so, and pays: contexts all shared or all their own, none padded."""
    alike = facts.shared or facts.common == 0
    plain = recipe.optimiser == "adam" and recipe.batch is not None and recipe.draws is None
    return alike and plain and bool((facts.weights > 0).all()) and steps >= _LEAST_STEPS and available()


class LayerReplica:
    """Weights and moments of one layer, and its examples: rows (T or 1, n, d), queries (T, d), targets (T,)."""

    def __init__(
        self,
        spec: ModelSpec,
        weights: Mapping[str, Floats],
        betas: tuple[float, float],
        places: Floats,
        rows: Floats,
        queries: Floats,
        targets: npt.NDArray[Any],
    ) -> None:
        arch = spec.arch
        self.spec, self.betas, self.steps = spec, betas, 0
        self.vector = np.concatenate([weights[name].ravel() for name in spec.shapes]).astype(np.float32)
        self.mean, self.square = np.zeros_like(self.vector), np.zeros_like(self.vector)
        self.shape = np.array([arch.n_heads, arch.d_model, arch.d_head, arch.context, spec.outputs], dtype=np.int64)
        self.places, self.rows = np.ascontiguousarray(places), np.ascontiguousarray(rows)
        self.queries, self.shared = np.ascontiguousarray(queries), rows.shape[0] == 1
        real = targets.dtype.kind == "f"
        self.classes = np.zeros(len(targets), np.int64) if real else targets
        self.values = targets.astype(np.float32) if real else np.zeros(len(targets), np.float32)

    def go(self, batches: Sequence[npt.NDArray[np.int64]], rates: Sequence[float]) -> Floats:
        """A step for each batch of examples; the loss of every batch, before its step."""
        losses = np.empty(len(batches), np.float32)
        ends = np.cumsum([len(one) for one in batches])
        kernel, rows = (shared_kernel(), self.rows[0]) if self.shared else (_kernel(), self.rows)
        kernel(
            self.vector, self.mean, self.square, self.shape, self.spec.regression, self.places, rows, self.queries,
            self.classes, self.values, np.concatenate(batches), ends, np.asarray(rates, dtype=np.float64),
            self.betas[0], self.betas[1], self.steps, losses,
        )  # fmt: skip
        self.steps += len(batches)
        return losses

    def weights(self) -> dict[str, Floats]:
        found, at = {}, 0
        for name, shape in self.spec.shapes.items():
            size = math.prod(shape)
            found[name] = self.vector[at : at + size].reshape(shape).copy()
            at += size
        return found


@cache
def _kernel() -> Callable[..., None]:
    exponentials, cross_entropy, adam = kernels()
    split = split_layer()

    def steps(
        vector: Any, mean: Any, square: Any, shape: Any, real: bool, places: Any, rows: Any, queries: Any, classes: Any,
        values: Any, order: Any, ends: Any, rates: Any, beta1: float, beta2: float, done: int, losses: Any,
    ) -> None:  # fmt: skip
        heads, d, k, n, c = shape[0], shape[1], shape[2], shape[3], shape[4]
        width = d + n
        scale = np.float32(1.0 / math.sqrt(d))
        grad = np.zeros_like(vector)
        w_in, b_in, w_q, w_k, w_v, w_o, w_u, b_u = split(vector, heads, d, k, c)
        d_in, d_b, d_q, d_k, d_v, d_o, d_u, d_bu = split(grad, heads, d, k, c)
        batch = 0
        for step in range(ends.shape[0]):
            batch = max(batch, ends[step] - (ends[step - 1] if step else 0))
        form, d_form = np.empty((d, width), np.float32), np.empty((d, width), np.float32)
        more = np.empty((d, width), np.float32)
        meet, d_meet = np.empty((heads, d, d), np.float32), np.empty((d, d), np.float32)
        folded, d_folded = np.empty((heads, d, width), np.float32), np.empty((d, width), np.float32)
        held, d_held = np.empty((heads, width), np.float32), np.empty((heads, width), np.float32)
        readout, d_readout = np.empty((c, heads), np.float32), np.empty((c, heads), np.float32)
        chosen, asked = np.empty((batch, d), np.float32), np.empty((batch, d), np.float32)
        d_asked, back = np.empty((batch, d), np.float32), np.empty((batch, d), np.float32)
        probe = np.empty(heads * batch * width, np.float32)
        share, value = np.empty(batch * heads * n, np.float32), np.empty((batch, heads, n), np.float32)
        power = np.empty(max(batch * heads * n, batch * c), np.int32)
        whole = power.view(np.float32)
        seen, d_seen = np.empty((batch, heads), np.float32), np.empty((batch, heads), np.float32)
        made, ahead = np.empty(batch * c, np.float32), np.empty(batch, np.float32)
        labels = np.empty(batch, np.int64)
        both, d_both = np.empty((2 * heads, d), np.float32), np.empty((2 * heads, n), np.float32)
        met, pulled = np.empty((2 * heads, n), np.float32), np.empty((2 * heads, d), np.float32)
        begin = 0
        for step in range(ends.shape[0]):
            size = ends[step] - begin
            for f in range(size):
                chosen[f] = queries[order[begin + f]]
                labels[f] = classes[order[begin + f]]
            ask, d_ask, turned = asked[:size], d_asked[:size], back[:size]
            np.dot(chosen[:size], w_in.T, ask)
            for f in range(size):
                for i in range(d):
                    ask[f, i] += b_in[i] + places[0, i]
            # What the heads meet: the embedding and its shifts.
            form[:, :d] = w_in
            for i in range(d):
                for j in range(n):
                    form[i, d + j] = b_in[i] + places[j + 1, i]
            np.dot(w_v, form, held)
            went = probe[: heads * size * width].reshape(heads, size, width)
            for h in range(heads):
                np.dot(w_q[h].T, w_k[h], meet[h])
                meet[h] *= scale
                np.dot(meet[h], form, folded[h])
                np.dot(ask, folded[h], went[h])
            part = share[: size * heads * n].reshape(size, heads, n)
            both[heads:] = held[:, :d]
            for f in range(size):
                for h in range(heads):
                    both[h] = went[h, f, :d]
                np.dot(both, rows[order[begin + f]].T, met)
                for h in range(heads):
                    for j in range(n):
                        part[f, h, j] = met[h, j] + went[h, f, d + j]
                        value[f, h, j] = met[heads + h, j] + held[h, d + j]
            for f in range(size):
                for h in range(heads):
                    row = part[f, h]
                    most = row[0]
                    for j in range(n):
                        most = max(most, row[j])
                    for j in range(n):
                        row[j] -= most
            exponentials(share[: size * heads * n], whole, power)
            for f in range(size):
                for h in range(heads):
                    row, own = part[f, h], value[f, h]
                    total, mixed = np.float32(0.0), np.float32(0.0)
                    for j in range(n):
                        total += row[j]
                        mixed += row[j] * own[j]
                    total = np.float32(1.0) / total
                    for j in range(n):
                        row[j] *= total
                    seen[f, h] = mixed * total
            np.dot(w_u, w_o, readout)
            table = made[: size * c].reshape(size, c)
            np.dot(seen[:size], readout.T, table)
            for f in range(size):
                for j in range(c):
                    table[f, j] += b_u[j]
            if real:
                loss = np.float32(0.0)
                for f in range(size):
                    off = table[f, 0] - values[order[begin + f]]
                    loss += off * off
                    table[f, 0] = np.float32(2.0) * off / np.float32(size)
                losses[step] = loss / np.float32(size)
            else:
                losses[step], _ = cross_entropy(table, labels[:size], ahead, whole, power)
            # Backwards: readout, heads, queries, embedding.
            d_bu[:] = 0.0
            for f in range(size):
                for j in range(c):
                    d_bu[j] += table[f, j]
            np.dot(table.T, seen[:size], d_readout)
            np.dot(table, readout, d_seen[:size])
            np.dot(d_readout, w_o.T, d_u)
            np.dot(w_u.T, d_readout, d_o)
            d_held[:] = 0.0
            for f in range(size):
                for h in range(heads):
                    row, own = part[f, h], value[f, h]
                    g, mixed = d_seen[f, h], seen[f, h]
                    for j in range(n):
                        d_both[heads + h, j] = g * row[j]
                        d_both[h, j] = g * row[j] * (own[j] - mixed)
                np.dot(d_both, rows[order[begin + f]], pulled)
                for h in range(heads):
                    went[h, f, :d] = pulled[h]
                    went[h, f, d:] = d_both[h]
                    for j in range(d):
                        d_held[h, j] += pulled[heads + h, j]
                    for j in range(n):
                        d_held[h, d + j] += d_both[heads + h, j]
            np.dot(d_held, form.T, d_v)
            np.dot(w_v.T, d_held, d_form)
            d_ask[:] = 0.0
            for h in range(heads):
                np.dot(ask.T, went[h], d_folded)
                np.dot(went[h], folded[h].T, turned)
                d_ask += turned
                np.dot(d_folded, form.T, d_meet)
                np.dot(meet[h].T, d_folded, more)
                d_form += more
                d_meet *= scale
                np.dot(w_k[h], d_meet.T, d_q[h])
                np.dot(w_q[h], d_meet, d_k[h])
            np.dot(d_ask.T, chosen[:size], d_in)
            d_in += d_form[:, :d]
            for i in range(d):
                total = np.float32(0.0)
                for j in range(width - n, width):
                    total += d_form[i, j]
                d_b[i] = total
            for f in range(size):
                for i in range(d):
                    d_b[i] += d_ask[f, i]
            adam(vector, grad, mean, square, rates[step], beta1, beta2, done + step + 1)
            begin = ends[step]

    return compile_loop(steps)
