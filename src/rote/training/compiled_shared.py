"""Small batches through the layer of Mahdavi et al. with one context for all examples, compiled by numba.

The context is embedded once a step, rows x_1, ..., x_n, and a head's scores are products of the queries with n vectors,

    score_hj = asked . f_hj,    f_hj = W_Q^T W_K x_j / sqrt(d),    asked = W_in q + b + p_0,

so that all heads and all examples are one product of matrices, and so is each of the two ways back through it. What is
left, a softmax for every example and head, is done example by example and stays near the processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rote.training.kernels import compile_loop, kernels, split_layer

__all__ = ["shared_kernel"]

_BLOCK = 4096
"""Scores that go through the softmax together."""


@cache
def shared_kernel() -> Callable[..., None]:
    exponentials, cross_entropy, adam = kernels()
    split = split_layer()

    def largest(scores: Any, out: Any) -> None:
        """The largest score of every row."""
        for i in range(scores.shape[0]):
            most = scores[i, 0]
            for j in range(scores.shape[1]):
                most = max(most, scores[i, j])
            out[i] = most

    # Only here may the compiler take it that nothing is NaN: a NaN stays in the scores that it looks at.
    largest = compile_loop(largest, no_nans=True)

    def look(scores: Any, held: Any, seen: Any, most: Any, whole: Any, power: Any) -> None:
        """Scores (B, H n) become shares, and seen (B, H) what the heads make of the values held (H, n)."""
        heads, n = held.shape
        wide = heads * n
        block = max(1, _BLOCK // wide)
        for start in range(0, scores.shape[0], block):
            end = min(start + block, scores.shape[0])
            rows = scores[start:end].reshape((end - start) * heads, n)
            largest(rows, most)
            for i in range(rows.shape[0]):
                top = most[i]
                for j in range(n):
                    rows[i, j] -= top
            exponentials(rows.reshape((end - start) * wide), whole, power)
            for f in range(start, end):
                for h in range(heads):
                    row, own = rows[(f - start) * heads + h], held[h]
                    total, mixed = np.float32(0.0), np.float32(0.0)
                    for j in range(n):
                        total += row[j]
                    for j in range(n):
                        mixed += row[j] * own[j]
                    total = np.float32(1.0) / total
                    for j in range(n):
                        row[j] *= total
                    seen[f, h] = mixed * total

    def look_back(shares: Any, held: Any, seen: Any, d_seen: Any, d_held: Any) -> None:
        """Shares (B, H n) become the slope of the scores."""
        heads, n = held.shape
        d_held[:] = 0.0
        for f in range(shares.shape[0]):
            for h in range(heads):
                row, own, out = shares[f, h * n : (h + 1) * n], held[h], d_held[h]
                g, mixed = d_seen[f, h], seen[f, h]
                for j in range(n):
                    drawn = g * row[j]
                    out[j] += drawn
                    row[j] = drawn * (own[j] - mixed)

    look, look_back = compile_loop(look), compile_loop(look_back)

    def steps(
        vector: Any, mean: Any, square: Any, shape: Any, real: bool, places: Any, rows: Any, queries: Any, classes: Any,
        values: Any, order: Any, ends: Any, rates: Any, beta1: float, beta2: float, done: int, losses: Any,
    ) -> None:  # fmt: skip
        heads, d, k, n, c = shape[0], shape[1], shape[2], shape[3], shape[4]
        scale = np.float32(1.0 / math.sqrt(d))
        grad = np.zeros_like(vector)
        w_in, b_in, w_q, w_k, w_v, w_o, w_u, b_u = split(vector, heads, d, k, c)
        d_in, d_b, d_q, d_k, d_v, d_o, d_u, d_bu = split(grad, heads, d, k, c)
        batch = 0
        for step in range(ends.shape[0]):
            batch = max(batch, ends[step] - (ends[step - 1] if step else 0))
        form, d_form, more = np.empty((n, d), np.float32), np.empty((n, d), np.float32), np.empty((n, d), np.float32)
        keys, d_key = np.empty((heads, n, k), np.float32), np.empty((n, k), np.float32)
        folded, d_folded = np.empty((heads * n, d), np.float32), np.empty((heads * n, d), np.float32)
        held, d_held = np.empty((heads, n), np.float32), np.empty((heads, n), np.float32)
        readout, d_readout = np.empty((c, heads), np.float32), np.empty((c, heads), np.float32)
        chosen, asked, d_asked = (
            np.empty((batch, d), np.float32), np.empty((batch, d), np.float32), np.empty((batch, d), np.float32),
        )  # fmt: skip
        scores, seen, d_seen = (
            np.empty((batch, heads * n), np.float32), np.empty((batch, heads), np.float32),
            np.empty((batch, heads), np.float32),
        )  # fmt: skip
        made, ahead, labels = np.empty((batch, c), np.float32), np.empty(batch, np.float32), np.empty(batch, np.int64)
        most = np.empty(max(_BLOCK, heads * n), np.float32)
        power = np.empty(max(_BLOCK, heads * n, batch * c), np.int32)
        whole = power.view(np.float32)
        square_in = np.empty((d, d), np.float32)
        begin = 0
        for step in range(ends.shape[0]):
            size = ends[step] - begin
            own = chosen[:size]
            for f in range(size):
                own[f] = queries[order[begin + f]]
                labels[f] = classes[order[begin + f]]
            ask, d_ask, table = asked[:size], d_asked[:size], made[:size]
            np.dot(own, w_in.T, ask)
            for f in range(size):
                for i in range(d):
                    ask[f, i] += b_in[i] + places[0, i]
            np.dot(rows, w_in.T, form)
            for j in range(n):
                for i in range(d):
                    form[j, i] += b_in[i] + places[j + 1, i]
            np.dot(w_v, form.T, held)
            for h in range(heads):
                np.dot(form, w_k[h].T, keys[h])
                keys[h] *= scale
                np.dot(keys[h], w_q[h], folded[h * n : (h + 1) * n])
            np.dot(ask, folded.T, scores[:size])
            look(scores[:size], held, seen[:size], most, whole, power)
            np.dot(w_u, w_o, readout)
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
            look_back(scores[:size], held, seen[:size], d_seen[:size], d_held)
            np.dot(d_held, form, d_v)
            np.dot(d_held.T, w_v, d_form)
            np.dot(scores[:size].T, ask, d_folded)
            np.dot(scores[:size], folded, d_ask)
            for h in range(heads):
                part = d_folded[h * n : (h + 1) * n]
                np.dot(keys[h].T, part, d_q[h])
                np.dot(part, w_q[h].T, d_key)
                d_key *= scale
                np.dot(d_key.T, form, d_k[h])
                np.dot(d_key, w_k[h], more)
                d_form += more
            np.dot(d_ask.T, own, d_in)
            np.dot(d_form.T, rows, square_in)
            d_in += square_in
            d_b[:] = 0.0
            for j in range(n):
                for i in range(d):
                    d_b[i] += d_form[j, i]
            for f in range(size):
                for i in range(d):
                    d_b[i] += d_ask[f, i]
            adam(vector, grad, mean, square, rates[step], beta1, beta2, done + step + 1)
            begin = ends[step]

    return compile_loop(steps)
