"""Forward passes of stacked token models: tensors (R, features, facts), only the scored position is computed.

With two tokens in a context the softmax is a logistic function of one difference, and only differences of the two
vectors enter: half the work. Maps that meet anyway are multiplied first (W_K^T W_Q, W_O W_V) where that is less work.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rote.training.spec import ModelSpec

__all__ = ["Weights", "layer_norm", "mlp", "token_logits"]

Weights = Mapping[str, Tensor]
_EPS = 1e-5


def token_logits(spec: ModelSpec, w: Weights, contexts: Tensor) -> Tensor:
    """Logits (R, N, B) at the last position, for contexts (R, S, B)."""
    stream = _embed(w["W_E"], contexts)
    positions = w["W_pos"]
    beside = spec.family == "aot"
    if not beside:
        stream = [x + positions[:, s, :, None] for s, x in enumerate(stream)]
    last_layer = spec.arch.n_layers - 1
    for layer in range(spec.arch.n_layers):
        read = stream
        if spec.family == "prenorm":
            read = [layer_norm(x, w[f"gain_att.{layer}"], w[f"bias_att.{layer}"]) for x in read]
        if spec.compressed:
            read = [torch.bmm(w[f"W_C.{layer}"], x) for x in read]
        if beside:
            read = [x + positions[:, s, :, None] for s, x in enumerate(read)]
        first = len(stream) - 1 if layer == last_layer else 0
        out: list[Tensor] = []
        for s in range(first, len(stream)):
            seen = attend(w, layer, read[: s + 1], spec.arch.d_head)
            if spec.compressed:
                seen = torch.bmm(w[f"W_X.{layer}"], seen)
            x = stream[s] + seen
            out.append(x + mlp(spec, w, layer, x) if spec.arch.d_mlp else x)
        stream = out
    y = stream[-1]
    if spec.family == "prenorm":
        y = layer_norm(y, w["gain_out"], w["bias_out"])
    return torch.bmm(w["W_U"], y)


def _embed(table: Tensor, contexts: Tensor) -> list[Tensor]:
    """One (R, d, B) for each position."""
    r, n, d = table.shape
    offset = torch.arange(r, device=table.device)[:, None] * n
    flat = table.reshape(r * n, d)
    return [
        flat.index_select(0, (contexts[:, s] + offset).reshape(-1)).view(r, -1, d).transpose(1, 2).contiguous()
        for s in range(contexts.shape[1])
    ]


def attend(w: Weights, layer: int, read: list[Tensor], d_head: int) -> Tensor:
    """What all heads of a layer add at the last of the positions `read`, (R, width, B)."""
    W_Q, W_K, W_V, W_O = (w[f"{name}.{layer}"] for name in ("W_Q", "W_K", "W_V", "W_O"))
    r, h, k, d = W_Q.shape
    x = read[-1]
    folded = 2 * k > d
    if len(read) == 1:
        return torch.bmm(_summed(W_O, W_V), x)
    if folded and len(read) == 2:
        meet = (torch.matmul(W_K.transpose(2, 3), W_Q) * (1 / math.sqrt(d_head))).reshape(r, h * d, d)
        lift = torch.matmul(W_O, W_V)
        heads: Tensor = _Pair.apply(meet, lift.permute(0, 2, 1, 3).reshape(r, -1, h * d), x, read[0] - x)  # type: ignore[no-untyped-call]
        return heads + torch.bmm(lift.sum(1), x)
    if folded:
        meet = torch.matmul(W_K.transpose(2, 3), W_Q).reshape(r, h * d, d)
        probe = torch.bmm(meet, x).view(r, h, d, -1)
    else:
        asked = torch.bmm(W_Q.reshape(r, h * k, d), x).view(r, h, k, -1)
        probe = torch.matmul(W_K.transpose(2, 3), asked)
    scale = 1 / math.sqrt(d_head)
    if len(read) == 2:
        gap = read[0] - x
        share = torch.sigmoid((probe * gap[:, None]).sum(2) * scale)
        mixed = share[:, :, None] * gap[:, None]
        return _out(W_O, W_V, mixed, folded) + torch.bmm(_summed(W_O, W_V), x)
    scores = torch.stack([(probe * one[:, None]).sum(2) for one in read], dim=2)
    share = torch.softmax(scores * scale, dim=2)
    mixed = share[:, :, 0, None] * read[0][:, None]
    for s in range(1, len(read)):
        mixed = torch.addcmul(mixed, share[:, :, s, None], read[s][:, None])
    return _out(W_O, W_V, mixed, folded)


class _Pair(torch.autograd.Function):
    """sum_h lift_h s_h gap, s_h = sigmoid(gap . meet_h x): heads over two tokens, with the gradient written out.

    meet (R, H d, d), lift (R, w, H d), x and gap (R, d, B). Autograd would make twice as many passes over tensors of
    size (R, H, d, B), and its products with few columns are slow: here the short side always comes first.
    """

    @staticmethod
    def forward(ctx: Any, meet: Tensor, lift: Tensor, x: Tensor, gap: Tensor) -> Tensor:
        r, d, b = gap.shape
        probe = torch.bmm(meet, x).view(r, -1, d, b)
        mixed = probe * gap[:, None]
        share = mixed.sum(2).sigmoid_()
        torch.mul(share[:, :, None], gap[:, None], out=mixed)
        ctx.save_for_backward(meet, lift, x, gap, probe, share, mixed)
        return torch.bmm(lift, mixed.view(r, -1, b))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        meet, lift, x, gap, probe, share, mixed = ctx.saved_tensors
        r, d, b = gap.shape
        slope = torch.bmm(lift.transpose(1, 2), grad).view(r, -1, d, b)
        work = slope * gap[:, None]
        score = work.sum(2).mul_(share).mul_(1 - share)[:, :, None]
        torch.mul(slope, share[:, :, None], out=work)
        d_gap = work.sum(1)
        d_gap += torch.mul(probe, score, out=work).sum(1)
        asked = torch.mul(score, gap[:, None], out=work).view(r, -1, b)
        d_meet = torch.bmm(x, asked.transpose(1, 2)).transpose(1, 2)
        d_lift = torch.bmm(grad, mixed.view(r, -1, b).transpose(1, 2))
        return d_meet, d_lift, torch.bmm(meet.transpose(1, 2), asked), d_gap


def _summed(W_O: Tensor, W_V: Tensor) -> Tensor:
    """The sum over heads of W_O W_V, (R, d, d)."""
    r, h, d, k = W_O.shape
    return torch.bmm(W_O.permute(0, 2, 1, 3).reshape(r, d, h * k), W_V.reshape(r, h * k, d))


def _out(W_O: Tensor, W_V: Tensor, mixed: Tensor, folded: bool) -> Tensor:
    """The heads' outputs summed, for mixed (R, H, d, B)."""
    r, h, d, _ = mixed.shape
    k = W_V.shape[2]
    if folded:
        meet = torch.matmul(W_O, W_V).permute(0, 2, 1, 3).reshape(r, -1, h * d)
        return torch.bmm(meet, mixed.reshape(r, h * d, -1))
    values = torch.matmul(W_V, mixed).reshape(r, h * k, -1)
    return torch.bmm(W_O.permute(0, 2, 1, 3).reshape(r, -1, h * k), values)


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """Layer norm over the features of (R, d, B)."""
    centred = x - x.mean(1, keepdim=True)
    spread = torch.rsqrt((centred * centred).mean(1, keepdim=True) + _EPS)
    return centred * spread * gain[:, :, None] + bias[:, :, None]


def mlp(spec: ModelSpec, w: Weights, layer: int, x: Tensor) -> Tensor:
    """What the MLP adds to (R, d, B)."""
    if spec.family == "prenorm":
        x = layer_norm(x, w[f"gain_mlp.{layer}"], w[f"bias_mlp.{layer}"])
    up = torch.bmm(w[f"W_up.{layer}"], x)
    if spec.arch.gated:
        inner = nn.functional.silu(torch.bmm(w[f"W_gate.{layer}"], x)) * up
    elif spec.family == "transformer":
        inner = nn.functional.gelu(up)
    else:
        inner = nn.functional.gelu(up + w[f"b_up.{layer}"][:, :, None])
    out = torch.bmm(w[f"W_down.{layer}"], inner)
    return out + w[f"b_down.{layer}"][:, :, None] if spec.family == "prenorm" else out
