"""Forward pass of stacked attention layers over vectors (Mahdavi et al. 2024).

Contexts are data, so they are never projected: keys and values are pulled back through the embedding instead. With a
shared context the scores of all examples are one product of an (H n) x d matrix with the queries. Leading rows that all
examples have in common are treated like a shared context, the others example by example.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from rote.training.forward import Weights
from rote.training.spec import ModelSpec
from rote.training.tables import VectorStack

__all__ = ["sinusoids", "vector_outputs"]


def sinusoids(count: int, width: int) -> Tensor:
    """Sinusoidal positions (count, width): sines in even places, cosines in odd ones."""
    place = torch.arange(count, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    table = torch.zeros(count, width, dtype=torch.float64)
    table[:, 0::2] = torch.sin(place * rate)
    table[:, 1::2] = torch.cos(place * rate)[:, : width // 2]
    return table


@lru_cache(maxsize=16)
def _places(count: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return sinusoids(count, width).to(device=device, dtype=dtype)


def vector_outputs(spec: ModelSpec, w: Weights, data: VectorStack) -> Tensor:
    """Outputs (R, k, B): scores of the classes, or one real number."""
    n, W_in = spec.arch.context, w["W_in"]
    # The query stands at position 0, the context rows at 1, ..., n.
    places = _places(n + 1, spec.arch.d_model, W_in.dtype, W_in.device)
    shifts = w["b_in"][:, None] + places[1:]
    common = data.common
    if common == n:
        rows = data.contexts if data.shared else data.contexts[:, 0]
        scores, values = _common(w, places[0], shifts, rows.to(W_in.dtype), data.queries.to(W_in.dtype))
        # (1, n) times (n, B) for every head: nothing else of that size is formed.
        seen = torch.matmul(values[:, :, None], torch.softmax(scores, dim=2))[:, :, 0]
    else:
        found, held = _own(w, places[0], shifts[:, common:], data.contexts[:, :, common:].to(W_in.dtype), data.queries)
        if common:
            rows = data.contexts[:, 0, :common].to(W_in.dtype)
            scores, values = _common(w, places[0], shifts[:, :common], rows, data.queries.to(W_in.dtype))
            found = torch.cat([scores.permute(0, 3, 1, 2), found], dim=3)
            held = torch.cat([values[:, None].expand(-1, held.shape[1], -1, -1), held], dim=3)
        seen = (torch.softmax(found, dim=3) * held).sum(3).transpose(1, 2)
    # W_O and the decoder meet: classes x heads.
    readout = torch.bmm(w["W_U"], w["W_O"])
    return torch.bmm(readout, seen) + w["b_U"][:, :, None]


def _common(w: Weights, first: Tensor, shifts: Tensor, rows: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    """Scores (R, H, n, B) and values (R, H, n) of rows (R, n, d) that all examples share.

    The embedding of the queries is folded into the keys, so that the queries stay as they are.
    """
    W_in, W_Q, W_K = w["W_in"], w["W_Q"], w["W_K"]
    r, h, _, d = W_Q.shape
    embedded = torch.bmm(rows, W_in.transpose(1, 2)) + shifts
    keys = torch.matmul(embedded[:, None], W_K.transpose(2, 3))
    meet = torch.matmul(keys, W_Q).reshape(r, -1, d) * (1 / math.sqrt(d))
    constant = torch.bmm(meet, (w["b_in"] + first)[:, :, None])
    scores = torch.baddbmm(constant, torch.bmm(meet, W_in), queries).view(r, h, rows.shape[1], -1)
    return scores, torch.bmm(w["W_V"][:, :, 0], embedded.transpose(1, 2))


def _own(w: Weights, first: Tensor, shifts: Tensor, rows: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and values (R, B, H, n) of rows (R, B, n, d) that belong to one example each.

    The maps are pulled back to the raw rows: one product of 2 H vectors with an example's rows gives both.
    """
    W_in, W_Q, W_K = w["W_in"], w["W_Q"], w["W_K"]
    r, h, _, d = W_Q.shape
    b, n = rows.shape[1], rows.shape[2]
    asked = torch.bmm(queries.to(W_in.dtype).transpose(1, 2), W_in.transpose(1, 2)) + (w["b_in"] + first)[:, None]
    meet = torch.matmul(W_K.transpose(2, 3), W_Q).reshape(r, h * d, d) * (1 / math.sqrt(d))
    probe = torch.bmm(asked, meet.transpose(1, 2)).view(r, b * h, d)
    toward = w["W_V"][:, :, 0]
    pulled = torch.bmm(toward, W_in)
    both = torch.cat([torch.bmm(probe, W_in).view(r, b, h, d), pulled[:, None].expand(-1, b, -1, -1)], dim=2).view(
        r * b, 2 * h, d
    )
    made = torch.bmm(both, rows.reshape(r * b, n, d).transpose(1, 2)).view(r, b, 2 * h, n)
    constant = torch.bmm(probe, shifts.transpose(1, 2)).view(r, b, h, n)
    return made[:, :, :h] + constant, made[:, :, h:] + torch.bmm(toward, shifts.transpose(1, 2))[:, None]
