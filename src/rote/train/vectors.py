"""Forward pass of stacked attention layers over vectors (Mahdavi et al. 2024).

Contexts are data, so they are never projected: keys and values are pulled back through the embedding instead. With a
shared context the scores of all examples are one product of an (H n) x d matrix with the queries. Leading rows that all
examples have in common are treated like a shared context, the others example by example.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rote.train.forward import Weights
from rote.train.spec import ModelSpec
from rote.train.tables import VectorStack

__all__ = ["sinusoids", "vector_outputs"]


def sinusoids(count: int, width: int) -> Tensor:
    """Sinusoidal positions (count, width): sines in even places, cosines in odd ones."""
    place = torch.arange(count, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    table = torch.zeros(count, width, dtype=torch.float64)
    table[:, 0::2] = torch.sin(place * rate)
    table[:, 1::2] = torch.cos(place * rate)[:, : width // 2]
    return table


def vector_outputs(spec: ModelSpec, w: Weights, data: VectorStack) -> Tensor:
    """Outputs (R, k, B): scores of the classes, or one real number."""
    arch = spec.arch
    W_in, b_in, W_Q, W_K = w["W_in"], w["b_in"], w["W_Q"], w["W_K"]
    r, h, _, d = W_Q.shape
    # The query stands at position 0, the context rows at 1, ..., n.
    places = sinusoids(arch.context + 1, d).to(W_in)
    asked = torch.bmm(W_in, data.queries.to(W_in.dtype)) + (b_in + places[0])[:, :, None]
    shifts = b_in[:, None] + places[1:]
    scale = 1 / math.sqrt(d)
    toward = w["W_V"][:, :, 0]
    pulled = torch.bmm(toward, W_in)
    common = data.common
    scores: list[Tensor] = []
    values: list[Tensor] = []
    if common:
        rows = (data.contexts if data.shared else data.contexts[:, 0, :common]).to(W_in.dtype)
        embedded = torch.bmm(rows, W_in.transpose(1, 2)) + shifts[:, :common]
        keys = torch.matmul(embedded[:, None], W_K.transpose(2, 3))
        meet = torch.matmul(keys, W_Q).reshape(r, h * common, d) * scale
        scores.append(torch.bmm(meet, asked).view(r, h, common, -1))
        values.append(torch.bmm(toward, embedded.transpose(1, 2))[..., None])
    if common < arch.context:
        rows = data.contexts[:, :, common:].to(W_in.dtype)
        b, own = rows.shape[1], rows.shape[2]
        meet = torch.matmul(W_K.transpose(2, 3), W_Q).reshape(r, h * d, d) * scale
        probe = torch.bmm(meet, asked).view(r, h, d, b)
        constant = torch.matmul(shifts[:, None, common:], probe)
        back = torch.matmul(W_in.transpose(1, 2)[:, None], probe).permute(0, 3, 2, 1).reshape(r * b, d, h)
        found = torch.bmm(rows.reshape(r * b, own, d), back).view(r, b, own, h)
        scores.append(found.permute(0, 3, 2, 1) + constant)
        held = torch.bmm(rows.reshape(r, b * own, d), pulled.transpose(1, 2)).view(r, b, own, h)
        values.append(held.permute(0, 3, 2, 1) + torch.bmm(toward, shifts[:, common:].transpose(1, 2))[..., None])
    share = torch.softmax(torch.cat(scores, 2) if len(scores) > 1 else scores[0], dim=2)
    if len(values) > 1:
        values = [values[0].expand(-1, -1, -1, values[1].shape[3]), values[1]]
    seen = (share * (torch.cat(values, 2) if len(values) > 1 else values[0])).sum(2)
    # W_O and the decoder meet: classes x heads.
    readout = torch.bmm(w["W_U"], w["W_O"])
    return torch.bmm(readout, seen) + w["b_U"][:, :, None]
