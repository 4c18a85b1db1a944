"""One attention layer over a small vocabulary, from tables: what a head does depends on two tokens and a place.

With x_st the vector of token t at place s and b the last token of a fact, a head's scores are entries of one table and
its values rows of another,

    G_h[b, s, t] = x_st . M_h x_Sb,   A_h[s, t] = L_h x_st,   M_h = W_K^T W_Q / sqrt(d_h),   L_h = W_O W_V,

so that a fact costs S H d multiplications and not H d^2: the tables are made once a step for all facts. torch makes
them, and takes gradients back through them; numba (extra "fast") does the facts, heads innermost and padded with zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from rote.training.forward import Weights, mlp
from rote.training.kernels import available, compile_loop, kernels
from rote.training.spec import ModelSpec
from rote.training.tables import TokenStack

__all__ = ["possible", "tabled_logits", "worthwhile"]

_LANES = 8
_BLOCK = 32
"""Facts that are worked on together, so that their shares stay in the cache."""
_LARGEST = 2**21
"""Numbers in a table beyond which it no longer stays near the processor."""
_LEAST_WORK = 10**8
"""Shares of facts, over all steps, below which loading the compiled loop costs more than it saves."""


def possible(spec: ModelSpec, n_facts: int) -> bool:
    """Whether there are tables of such a model, and they are less work than so many facts one by one."""
    arch = spec.arch
    if spec.family not in ("transformer", "aot") or arch.n_layers != 1 or arch.context < 2 or not available():
        return False
    rows = arch.context * arch.vocab
    if _padded(arch.n_heads) * rows * max(arch.vocab, spec.width) > _LARGEST:
        return False
    # Making the scores takes N (S N) d multiplications a head, the facts S d each; else d^2 for every fact.
    return arch.vocab * rows * spec.width + n_facts * arch.context * spec.width < n_facts * spec.width**2 * 4


def worthwhile(spec: ModelSpec, facts: TokenStack, steps: int) -> bool:
    """Whether to train from tables here."""
    work = facts.replicas * facts.n_facts * spec.arch.context * _padded(spec.arch.n_heads) * steps
    return work >= _LEAST_WORK and facts.targets.device.type == "cpu" and possible(spec, facts.n_facts)


def _padded(heads: int) -> int:
    return -(-heads // _LANES) * _LANES


def tabled_logits(spec: ModelSpec, w: Weights, contexts: Tensor) -> Tensor:
    """Logits (R, N, B) at the last position, as `token_logits` has them."""
    W_E, W_pos = w["W_E"], w["W_pos"]
    r, n, d = W_E.shape
    places, width = W_pos.shape[1:]
    read = torch.bmm(W_E, w["W_C.0"].transpose(1, 2)) if spec.compressed else W_E
    rows = (read[:, None] + W_pos[:, :, None]).reshape(r, places * n, width)
    last = rows[:, -n:]
    W_Q, W_K, W_V, W_O = (w[f"{name}.0"] for name in ("W_Q", "W_K", "W_V", "W_O"))
    h = W_Q.shape[1]
    scale = 1 / math.sqrt(spec.arch.d_head)
    meet = torch.matmul(W_Q.transpose(2, 3), W_K) * scale
    probe = torch.matmul(last[:, None], meet)
    scores = torch.matmul(probe, rows[:, None].transpose(2, 3)).permute(0, 2, 3, 1)
    lift = torch.matmul(W_O, W_V).permute(0, 3, 2, 1).reshape(r, width, width * h)
    values = torch.bmm(rows, lift).view(r, places * n, width, h)
    extra = _padded(h) - h
    seen: Tensor = _Facts.apply(pad(scores, (0, extra)), pad(values, (0, extra)), contexts)  # type: ignore[no-untyped-call]
    if spec.compressed:
        seen = torch.bmm(seen, w["W_X.0"].transpose(1, 2))
    base = last if spec.family == "transformer" else W_E
    at = contexts[:, -1, :, None].expand(-1, -1, d)
    y = (seen + base.gather(1, at)).transpose(1, 2)
    if spec.arch.d_mlp:
        y = y + mlp(spec, w, 0, y)
    return torch.bmm(w["W_U"], y)


class _Facts(torch.autograd.Function):
    """Facts through tables: scores (R, N, S N, H), values (R, S N, w, H), contexts (R, S, B) to (R, B, w)."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, values: Tensor, contexts: Tensor) -> Tensor:
        r, s, b = contexts.shape
        scores, values = scores.contiguous(), values.contiguous()
        share = scores.new_empty(r, b, s, scores.shape[3])
        seen = scores.new_empty(r, b, values.shape[2])
        forwards, _ = _loops()
        for i in range(r):
            forwards(*(one[i].numpy() for one in (scores, values, contexts, share, seen)))
        ctx.save_for_backward(values, contexts, share)
        ctx.like = scores.shape
        return seen

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        values, contexts, share = ctx.saved_tensors
        d_scores, d_values = values.new_zeros(ctx.like), torch.zeros_like(values)
        grad = grad.contiguous()
        _, backwards = _loops()
        for i in range(len(grad)):
            backwards(*(one[i].numpy() for one in (values, contexts, share, grad, d_scores, d_values)))
        return d_scores, d_values, None


@cache
def _loops() -> tuple[Callable[..., None], Callable[..., None]]:
    exponentials, _, _ = kernels()

    def forwards(scores: Any, values: Any, contexts: Any, share: Any, seen: Any) -> None:
        n, heads = scores.shape[0], scores.shape[2]
        places, facts = contexts.shape
        width = values.shape[1]
        power = np.empty(_BLOCK * places * heads, np.int32)
        whole = power.view(np.float32)
        most, total = np.empty(heads, np.float32), np.empty(heads, np.float32)
        flat = share.reshape(facts * places * heads)
        for begin in range(0, facts, _BLOCK):
            end = min(begin + _BLOCK, facts)
            for f in range(begin, end):
                own = scores[contexts[places - 1, f]]
                most[:] = -np.inf
                for s in range(places):
                    row = own[s * n + contexts[s, f]]
                    for h in range(heads):
                        most[h] = max(most[h], row[h])
                for s in range(places):
                    row, here = own[s * n + contexts[s, f]], share[f, s]
                    for h in range(heads):
                        here[h] = row[h] - most[h]
            exponentials(flat[begin * places * heads : end * places * heads], whole, power)
            for f in range(begin, end):
                total[:] = 0.0
                for s in range(places):
                    here = share[f, s]
                    for h in range(heads):
                        total[h] += here[h]
                for h in range(heads):
                    total[h] = np.float32(1.0) / total[h]
                for s in range(places):
                    here = share[f, s]
                    for h in range(heads):
                        here[h] *= total[h]
                out = seen[f]
                out[:] = 0.0
                for s in range(places):
                    here, held = share[f, s], values[s * n + contexts[s, f]]
                    for i in range(width):
                        row = held[i]
                        mixed = np.float32(0.0)
                        for h in range(heads):
                            mixed += here[h] * row[h]
                        out[i] += mixed

    def backwards(values: Any, contexts: Any, share: Any, grad: Any, d_scores: Any, d_values: Any) -> None:
        n, heads = d_scores.shape[0], d_scores.shape[2]
        places, facts = contexts.shape
        width = values.shape[1]
        slope, mean = np.empty((places, heads), np.float32), np.empty(heads, np.float32)
        for f in range(facts):
            mean[:] = 0.0
            for s in range(places):
                at = s * n + contexts[s, f]
                here, held, moved, own = share[f, s], values[at], d_values[at], slope[s]
                own[:] = 0.0
                for i in range(width):
                    g = grad[f, i]
                    row, out = held[i], moved[i]
                    for h in range(heads):
                        own[h] += g * row[h]
                    for h in range(heads):
                        out[h] += g * here[h]
                for h in range(heads):
                    mean[h] += here[h] * own[h]
            asked = d_scores[contexts[places - 1, f]]
            for s in range(places):
                here, own, out = share[f, s], slope[s], asked[s * n + contexts[s, f]]
                for h in range(heads):
                    out[h] += here[h] * (own[h] - mean[h])

    return compile_loop(forwards), compile_loop(backwards)
