"""Small batches through several attention layers over two tokens, with or without MLPs, compiled by numba.

As in `compiled`: the first position sees itself alone, so that its stream is a table over tokens in every layer; what
the last position asks and holds is a table over tokens in the first layer and one row a fact in the others,

    seen = sum_h s_h (A_a - B_r) + B_r,   s_h = sigmoid(probe_r . (x1_a - x2_r)),   r = last token, or fact.

Where heads share a compression, they read `narrow` times the stream and add `widen` times what they see. The MLP of the
last layer and the readout go there and back a few facts at a time, those of the layers before keep what they made.
GELU is x times the normal distribution function, by a polynomial with an error of 1e-7 (Abramowitz, Stegun 7.1.26).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rote.training.kernels import compile_loop, kernels, maps

__all__ = ["deep_kernel"]

_BLOCK = 64
"""Facts that go through the MLP and the readout together."""


@cache
def deep_kernel() -> Callable[..., None]:
    exponentials, cross_entropy, adam = kernels()
    products, slopes = maps()

    def gelu(x: Any, out: Any, slope: Any, scratch: Any, whole: Any, power: Any) -> None:
        """GELU of a row, and its derivative."""
        m = x.shape[0]
        for j in range(m):
            scratch[j] = np.float32(-0.5) * x[j] * x[j]
        exponentials(scratch[:m], whole, power)
        for j in range(m):
            z = abs(x[j]) * np.float32(0.70710678)
            t = np.float32(1.0) / (np.float32(1.0) + np.float32(0.3275911) * z)
            p = np.float32(1.061405429) * t - np.float32(1.453152027)
            p = p * t + np.float32(1.421413741)
            p = p * t - np.float32(0.284496736)
            p = (p * t + np.float32(0.254829592)) * t
            beyond = np.float32(0.5) * p * scratch[j]
            share = np.float32(1.0) - beyond if x[j] >= np.float32(0.0) else beyond
            out[j] = x[j] * share
            slope[j] = share + x[j] * scratch[j] * np.float32(0.39894228)

    gelu = compile_loop(gelu)

    def attend(
        a: Any, r: Any, x1: Any, x2: Any, probe: Any, at_1: Any, at_2: Any, share: Any, whole: Any, power: Any,
        seen: Any,
    ) -> None:  # fmt: skip
        """What the heads add for every fact: tokens `a` at the first position, rows `r` at the last."""
        size, w = seen.shape
        heads = share.shape[0] // size
        for f in range(size):
            here = share[f * heads : (f + 1) * heads]
            here[:] = 0.0
            for i in range(w):
                between = x2[r[f], i] - x1[a[f], i]
                row = probe[r[f], i * heads : (i + 1) * heads]
                for h in range(heads):
                    here[h] += between * row[h]
        exponentials(share, whole, power)
        for i in range(size * heads):
            share[i] = np.float32(1.0) / (np.float32(1.0) + share[i])
        for f in range(size):
            here = share[f * heads : (f + 1) * heads]
            for i in range(w):
                total = np.float32(0.0)
                one, two = at_1[a[f], i * heads : (i + 1) * heads], at_2[r[f], i * heads : (i + 1) * heads]
                for h in range(heads):
                    total += two[h] + here[h] * (one[h] - two[h])
                seen[f, i] = total

    def attend_back(
        a: Any, r: Any, x1: Any, x2: Any, probe: Any, at_1: Any, at_2: Any, share: Any, d_seen: Any, score: Any,
        d_1: Any, d_2: Any, d_probe: Any, d_at_1: Any, d_at_2: Any,
    ) -> None:  # fmt: skip
        """The gradients of `attend`, added to what is there."""
        size, w = d_seen.shape
        heads = share.shape[0] // size
        for f in range(size):
            here = share[f * heads : (f + 1) * heads]
            score[:] = 0.0
            for i in range(w):
                g = d_seen[f, i]
                one, two = at_1[a[f], i * heads : (i + 1) * heads], at_2[r[f], i * heads : (i + 1) * heads]
                for h in range(heads):
                    score[h] += g * (one[h] - two[h])
            for h in range(heads):
                score[h] *= here[h] * (np.float32(1.0) - here[h])
            for i in range(w):
                g = d_seen[f, i]
                between = x1[a[f], i] - x2[r[f], i]
                held = slice(i * heads, (i + 1) * heads)
                one, two, asked, row = d_at_1[a[f], held], d_at_2[r[f], held], d_probe[r[f], held], probe[r[f], held]
                total = np.float32(0.0)
                for h in range(heads):
                    one[h] += g * here[h]
                for h in range(heads):
                    two[h] += g - g * here[h]
                for h in range(heads):
                    asked[h] += between * score[h]
                for h in range(heads):
                    total += score[h] * row[h]
                d_1[a[f], i] += total
                d_2[r[f], i] -= total

    attend, attend_back = compile_loop(attend), compile_loop(attend_back)

    def inner_mlp(
        x: Any, w_up: Any, bias: Any, w_down: Any, inner: Any, turn: Any, ups: Any, add: Any, scratch: Any, whole: Any,
        power: Any,
    ) -> None:  # fmt: skip
        """An MLP on the rows x, added to them; its hidden units and their slopes are kept."""
        biased = bias.shape[0] > 0
        for start in range(0, x.shape[0], _BLOCK):
            end = min(start + _BLOCK, x.shape[0])
            up = ups[: (end - start) * w_up.shape[0]].reshape(end - start, w_up.shape[0])
            np.dot(x[start:end], w_up.T, up)
            for f in range(end - start):
                if biased:
                    for j in range(bias.shape[0]):
                        up[f, j] += bias[j]
                gelu(up[f], inner[start + f], turn[start + f], scratch, whole, power)
            np.dot(inner[start:end], w_down.T, add[start:end])
        for f in range(x.shape[0]):
            for i in range(x.shape[1]):
                x[f, i] += add[f, i]

    def inner_mlp_back(
        mid: Any, inner: Any, turn: Any, w_up: Any, w_down: Any, d_x: Any, d_up: Any, d_bias: Any, d_down: Any,
        add: Any,
    ) -> None:  # fmt: skip
        """The gradients of `inner_mlp`, added to what is there; d_x becomes the slope of what went in, `mid`."""
        biased = d_bias.shape[0] > 0
        for start in range(0, mid.shape[0], _BLOCK):
            end = min(start + _BLOCK, mid.shape[0])
            part = turn[start:end]
            d_down += np.dot(d_x[start:end].T, inner[start:end])
            back = np.dot(d_x[start:end], w_down)
            for f in range(end - start):
                for j in range(part.shape[1]):
                    part[f, j] *= back[f, j]
                if biased:
                    for j in range(part.shape[1]):
                        d_bias[j] += part[f, j]
            d_up += np.dot(part.T, mid[start:end])
            np.dot(part, w_up, add[start:end])
        for f in range(mid.shape[0]):
            for i in range(mid.shape[1]):
                d_x[f, i] += add[f, i]

    inner_mlp, inner_mlp_back = compile_loop(inner_mlp), compile_loop(inner_mlp_back)

    def epoch(
        vector: Any, mean: Any, square: Any, shape: Any, scale: Any, first: Any, last: Any, targets: Any, batch: int,
        rates: Any, beta1: float, beta2: float, done: int, right: Any, losses: Any,
    ) -> None:  # fmt: skip
        n, d, w, k, heads = shape[0], shape[1], shape[2], shape[3], shape[4]
        compressed, beside, layers, m, biased = shape[5] > 0, shape[6] > 0, shape[7], shape[8], shape[9]
        wide, small = w * heads, k * d * shape[5]
        grad = np.zeros_like(vector)
        ends = np.cumsum(np.array([n * d, 2 * w]))
        e, d_e = vector[: ends[0]].reshape(n, d), grad[: ends[0]].reshape(n, d)
        place, d_place = vector[ends[0] : ends[1]].reshape(2, w), grad[ends[0] : ends[1]].reshape(2, w)
        # By layer: compression, expansion, biases, the way up, the way down.
        sizes = np.array([0, small, small, biased * m, m * d, d * m])
        parts = np.cumsum(sizes)
        block, rest = parts[5], ends[1]
        start = rest + layers * block
        u, d_u = vector[start : start + n * d].reshape(n, d), grad[start : start + n * d].reshape(n, d)
        each, start = k * w * heads, start + n * d
        own = vector[start : start + 4 * layers * each].reshape(4 * layers, k, w, heads)
        d_own = grad[start : start + 4 * layers * each].reshape(4 * layers, k, w, heads)
        most = max(batch, n)
        meet, lift = np.empty((layers, w, w, heads), np.float32), np.empty((layers, w, w, heads), np.float32)
        d_meet, d_lift, more = (
            np.empty((w, wide), np.float32), np.empty((w, wide), np.float32), np.empty((w, wide), np.float32),
        )  # fmt: skip
        # By layer: the streams, what the heads read of them, and what they make of that.
        s1, x1 = np.empty((layers + 1, n, d), np.float32), np.empty((layers, n, w), np.float32)
        x2s, probes = np.empty(layers * most * w, np.float32), np.empty(layers * most * wide, np.float32)
        at_1, at_2s = np.empty((layers, n, wide), np.float32), np.empty(layers * most * wide, np.float32)
        shares = np.empty(layers * batch * heads, np.float32)
        d_probes, d_at_2s, d_at_1 = (
            np.empty(most * wide, np.float32), np.empty(most * wide, np.float32), np.empty((n, wide), np.float32),
        )  # fmt: skip
        d_1, d_s1, back_1 = np.empty((n, w), np.float32), np.empty((n, d), np.float32), np.empty((n, w), np.float32)
        itself_1, d_itself_1 = np.empty((layers, n, w), np.float32), np.empty((n, w), np.float32)
        wide_1, wides = np.empty((n, d), np.float32), np.empty(most * d, np.float32)
        # What a compression and an MLP met at the last position, and what MLPs before the last layer made.
        before_2, d_seens = np.empty(layers * batch * d, np.float32), np.empty(batch * w, np.float32)
        kept = (layers - 1) * m
        mid_1, mid_2 = np.empty((layers, n, d), np.float32), np.empty(layers * batch * d, np.float32)
        inner_1, turn_1 = np.empty(kept * n, np.float32), np.empty(kept * n, np.float32)
        inner_2, turn_2 = np.empty(kept * batch, np.float32), np.empty(kept * batch, np.float32)
        d_2s, backs = np.empty(most * w, np.float32), np.empty(most * w, np.float32)
        streams, seens, d_ys = (
            np.empty(batch * d, np.float32), np.empty(layers * batch * w, np.float32), np.empty(batch * d, np.float32),
        )  # fmt: skip
        ups, inners, turns = (
            np.empty(_BLOCK * m, np.float32), np.empty(_BLOCK * m, np.float32), np.empty(_BLOCK * m, np.float32),
        )  # fmt: skip
        logits, scratch = np.empty(_BLOCK * n, np.float32), np.empty(max(m, 1), np.float32)
        power = np.empty(max(batch * heads, _BLOCK * n, m), np.int32)
        whole = power.view(np.float32)
        score, picked, itself = np.empty(heads, np.float32), np.empty(_BLOCK, np.float32), np.arange(batch)
        for step in range(right.shape[0]):
            begin = step * batch
            size = min(batch, targets.shape[0] - begin)
            a, b = first[begin : begin + size], last[begin : begin + size]
            y, d_y = streams[: size * d].reshape(size, d), d_ys[: size * d].reshape(size, d)
            for t in range(n):
                for i in range(d):
                    s1[0, t, i] = e[t, i] if beside else e[t, i] + place[0, i]
            for f in range(size):
                for i in range(d):
                    y[f, i] = e[b[f], i] if beside else e[b[f], i] + place[1, i]
            for layer in range(layers):
                rows = size if layer else n
                x2 = x2s[layer * most * w :][: rows * w].reshape(rows, w)
                seen = seens[layer * batch * w :][: size * w].reshape(size, w)
                base = rest + layer * block
                narrow = vector[base : base + small].reshape(small // d, d)
                widen = vector[base + small : base + 2 * small].reshape(d, small // d)
                if compressed:
                    was = before_2[layer * batch * d :][: size * d].reshape(size, d)
                    was[:] = y
                    np.dot(s1[layer], narrow.T, x1[layer])
                    np.dot(was if layer else e, narrow.T, x2)
                else:
                    x1[layer] = s1[layer]
                    x2[:] = y if layer else e
                for t in range(n):
                    for i in range(w):
                        if beside:
                            x1[layer, t, i] += place[0, i]
                for t in range(rows):
                    for i in range(w):
                        if beside or not layer:
                            x2[t, i] += place[1, i]
                products(own[4 * layer + 1], own[4 * layer], meet[layer], scale)
                products(own[4 * layer + 3], own[4 * layer + 2], lift[layer], np.float32(1.0))
                flat_meet, flat_lift = meet[layer].reshape(w, wide), lift[layer].reshape(w, wide)
                probe = probes[layer * most * wide :][: rows * wide].reshape(rows, wide)
                at_2 = at_2s[layer * most * wide :][: rows * wide].reshape(rows, wide)
                np.dot(x2, flat_meet, probe)
                np.dot(x2, flat_lift, at_2)
                np.dot(x1[layer], flat_lift, at_1[layer])
                for t in range(n):
                    for i in range(w):
                        total = np.float32(0.0)
                        for h in range(heads):
                            total += at_1[layer, t, i * heads + h]
                        itself_1[layer, t, i] = total
                share = shares[layer * batch * heads :][: size * heads]
                r = itself[:size] if layer else b
                attend(a, r, x1[layer], x2, probe, at_1[layer], at_2, share, whole, power, seen)
                if compressed:
                    np.dot(itself_1[layer], widen.T, s1[layer + 1])
                    s1[layer + 1] += s1[layer]
                    add = wides[: size * d].reshape(size, d)
                    np.dot(seen, widen.T, add)
                    y += add
                else:
                    s1[layer + 1] = s1[layer] + itself_1[layer]
                    y += seen
                if m and layer < layers - 1:
                    mid = mid_2[layer * batch * d :][: size * d].reshape(size, d)
                    mid[:] = y
                    mid_1[layer] = s1[layer + 1]
                    bias = vector[base + parts[2] : base + parts[3]]
                    w_up = vector[base + parts[3] : base + parts[4]].reshape(m, d)
                    w_down = vector[base + parts[4] : base + parts[5]].reshape(d, m)
                    at, rise = layer * n * m, layer * batch * m
                    inner_mlp(
                        s1[layer + 1], w_up, bias, w_down, inner_1[at : at + n * m].reshape(n, m),
                        turn_1[at : at + n * m].reshape(n, m), ups, wide_1, scratch, whole, power,
                    )  # fmt: skip
                    inner_mlp(
                        y, w_up, bias, w_down, inner_2[rise : rise + size * m].reshape(size, m),
                        turn_2[rise : rise + size * m].reshape(size, m), ups, wides[: size * d].reshape(size, d),
                        scratch, whole, power,
                    )  # fmt: skip
            # MLP, readout and loss, there and back: a few facts at a time, so that all of it stays in the cache.
            d_u[:] = 0.0
            grad[rest : rest + layers * block] = 0.0
            base = rest + (layers - 1) * block
            bias, d_bias = vector[base + parts[2] : base + parts[3]], grad[base + parts[2] : base + parts[3]]
            w_up = vector[base + parts[3] : base + parts[4]].reshape(m, d)
            d_up = grad[base + parts[3] : base + parts[4]].reshape(m, d)
            w_down = vector[base + parts[4] : base + parts[5]].reshape(d, m)
            d_down = grad[base + parts[4] : base + parts[5]].reshape(d, m)
            mid = mid_2[(layers - 1) * batch * d :][: size * d].reshape(size, d)
            losses[step], right[step] = 0.0, 0.0
            for start in range(0, size, _BLOCK):
                end = min(start + _BLOCK, size)
                count = end - start
                weight = np.float32(count) / np.float32(size)
                up, inner, turn = (
                    ups[: count * m].reshape(count, m), inners[: count * m].reshape(count, m),
                    turns[: count * m].reshape(count, m),
                )  # fmt: skip
                here, d_here, before = y[start:end], d_y[start:end], mid[start:end]
                if m:
                    np.dot(here, w_up.T, up)
                    for f in range(count):
                        if biased:
                            for j in range(m):
                                up[f, j] += bias[j]
                        gelu(up[f], inner[f], turn[f], scratch, whole, power)
                    np.dot(inner, w_down.T, d_here)
                    for f in range(count):
                        for i in range(d):
                            before[f, i] = here[f, i]
                            here[f, i] += d_here[f, i]
                table = logits[: count * n].reshape(count, n)
                np.dot(here, u.T, table)
                lost, hit = cross_entropy(table, targets[begin + start : begin + end], picked, whole, power)
                losses[step] += lost * weight
                right[step] += hit * weight
                for f in range(count):
                    for j in range(n):
                        table[f, j] *= weight
                d_u += np.dot(table.T, here)
                np.dot(table, u, d_here)
                if m:
                    d_down += np.dot(d_here.T, inner)
                    np.dot(d_here, w_down, up)
                    for f in range(count):
                        for j in range(m):
                            up[f, j] *= turn[f, j]
                        if biased:
                            for j in range(m):
                                d_bias[j] += up[f, j]
                    d_up += np.dot(up.T, before)
                    np.dot(up, w_up, before)
                    for f in range(count):
                        for i in range(d):
                            d_here[f, i] += before[f, i]
            d_s1[:] = 0.0
            d_place[:] = 0.0
            for layer in range(layers - 1, -1, -1):
                rows = size if layer else n
                x2 = x2s[layer * most * w :][: rows * w].reshape(rows, w)
                probe = probes[layer * most * wide :][: rows * wide].reshape(rows, wide)
                at_2 = at_2s[layer * most * wide :][: rows * wide].reshape(rows, wide)
                d_probe, d_at_2 = (
                    d_probes[: rows * wide].reshape(rows, wide),
                    d_at_2s[: rows * wide].reshape(rows, wide),
                )
                d_2, back = d_2s[: rows * w].reshape(rows, w), backs[: rows * w].reshape(rows, w)
                seen, d_seen = (
                    seens[layer * batch * w :][: size * w].reshape(size, w), d_seens[: size * w].reshape(size, w),
                )  # fmt: skip
                base = rest + layer * block
                if m and layer < layers - 1:
                    w_up = vector[base + parts[3] : base + parts[4]].reshape(m, d)
                    w_down = vector[base + parts[4] : base + parts[5]].reshape(d, m)
                    d_bias = grad[base + parts[2] : base + parts[3]]
                    d_up = grad[base + parts[3] : base + parts[4]].reshape(m, d)
                    d_down = grad[base + parts[4] : base + parts[5]].reshape(d, m)
                    at, rise = layer * n * m, layer * batch * m
                    inner_mlp_back(
                        mid_1[layer], inner_1[at : at + n * m].reshape(n, m), turn_1[at : at + n * m].reshape(n, m),
                        w_up, w_down, d_s1, d_up, d_bias, d_down, wide_1,
                    )  # fmt: skip
                    inner_mlp_back(
                        mid_2[layer * batch * d :][: size * d].reshape(size, d),
                        inner_2[rise : rise + size * m].reshape(size, m),
                        turn_2[rise : rise + size * m].reshape(size, m), w_up, w_down, d_y, d_up, d_bias, d_down,
                        wides[: size * d].reshape(size, d),
                    )  # fmt: skip
                narrow = vector[base : base + small].reshape(small // d, d)
                widen = vector[base + small : base + 2 * small].reshape(d, small // d)
                d_narrow = grad[base : base + small].reshape(small // d, d)
                d_widen = grad[base + small : base + 2 * small].reshape(d, small // d)
                if compressed:
                    np.dot(d_y.T, seen, d_widen)
                    d_widen += np.dot(d_s1.T, itself_1[layer])
                    np.dot(d_y, widen, d_seen)
                    np.dot(d_s1, widen, d_itself_1)
                else:
                    d_seen[:] = d_y
                    d_itself_1[:] = d_s1
                share = shares[layer * batch * heads :][: size * heads]
                d_1[:] = 0.0
                d_2[:] = 0.0
                d_probe[:] = 0.0
                d_at_2[:] = 0.0
                for t in range(n):
                    for i in range(w):
                        for h in range(heads):
                            d_at_1[t, i * heads + h] = d_itself_1[t, i]
                r = itself[:size] if layer else b
                attend_back(
                    a, r, x1[layer], x2, probe, at_1[layer], at_2, share, d_seen, score, d_1, d_2, d_probe, d_at_1,
                    d_at_2,
                )  # fmt: skip
                flat_meet, flat_lift = meet[layer].reshape(w, wide), lift[layer].reshape(w, wide)
                np.dot(x2.T, d_probe, d_meet)
                np.dot(x1[layer].T, d_at_1, d_lift)
                np.dot(x2.T, d_at_2, more)
                for j in range(w):
                    for i in range(wide):
                        d_lift[j, i] += more[j, i]
                np.dot(d_at_1, flat_lift.T, back_1)
                for t in range(n):
                    for i in range(w):
                        d_1[t, i] += back_1[t, i]
                np.dot(d_at_2, flat_lift.T, back)
                for t in range(rows):
                    for i in range(w):
                        d_2[t, i] += back[t, i]
                np.dot(d_probe, flat_meet.T, back)
                for t in range(rows):
                    for i in range(w):
                        d_2[t, i] += back[t, i]
                at = 4 * layer
                slopes(d_meet.reshape(w, w, heads), own[at + 1], own[at], d_own[at + 1], d_own[at], scale)
                slopes(d_lift.reshape(w, w, heads), own[at + 3], own[at + 2], d_own[at + 3], d_own[at + 2],
                       np.float32(1.0))  # fmt: skip
                # Positions beside the stream are read in every layer; those in it once, at its beginning.
                if beside:
                    for t in range(n):
                        for i in range(w):
                            d_place[0, i] += d_1[t, i]
                    for t in range(rows):
                        for i in range(w):
                            d_place[1, i] += d_2[t, i]
                d_in = wides[: rows * d].reshape(rows, d)
                if compressed:
                    was = before_2[layer * batch * d :][: size * d].reshape(size, d)
                    np.dot(d_1.T, s1[layer], d_narrow)
                    d_narrow += np.dot(d_2.T, was if layer else e)
                    np.dot(d_1, narrow, wide_1)
                    d_s1 += wide_1
                    np.dot(d_2, narrow, d_in)
                else:
                    d_s1 += d_1
                    d_in[:] = d_2
                if layer:
                    d_y += d_in
                else:
                    for t in range(n):
                        for i in range(d):
                            d_e[t, i] = d_s1[t, i] + d_in[t, i]
                            if not beside:
                                d_place[0, i] += d_s1[t, i]
                                d_place[1, i] += d_in[t, i]
                    for f in range(size):
                        for i in range(d):
                            d_e[b[f], i] += d_y[f, i]
                            if not beside:
                                d_place[1, i] += d_y[f, i]
            adam(vector, grad, mean, square, rates[step], beta1, beta2, done + step + 1)

    return compile_loop(epoch)
