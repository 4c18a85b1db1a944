"""What the store reads in 16 bits, as the model computes it there, so that its maps can be made for all formats.

Rounding is no noise: the same window gives the same numbers each time. Signs of the hash come out a hundredth off, and
a map multiplies that; but a map that takes both the exact numbers and the rounded ones to the level is nearly as easy
to find as one for either of them, since there are many more weights than keys behind a gate.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear, silu

from rote.solvers.keyed.bottom import SHARPER, Bottom, Marks
from rote.solvers.keyed.frame import Plan, channels_of, usual_size
from rote.solvers.keyed.layers import Body
from rote.solvers.keyed.store import Reading
from rote.solvers.keyed.tokens import Codebook

__all__ = ["Rounded", "formats"]

_ROWS = 4096
_DEEP = 2


class Rounded:
    """Inputs of the store in a number format, by windows."""

    def __init__(
        self,
        body: Body,
        plan: Plan,
        book: Codebook,
        marks: Marks,
        embedding: Tensor,
        small: float,
        dtype: torch.dtype,
    ) -> None:
        sizes = (embedding.double().pow(2).mean(1) + body.eps).sqrt()
        channels, _ = channels_of(body, book.bits, plan)
        below = Bottom(body, channels, plan, plan.inner(body), usual_size(sizes), small)
        self.below, self.book, self.dtype = below, book, dtype
        added = below.embedded(book, sizes, marks)
        self._embedding = torch.cat([embedding.float().to(dtype), added.float().to(dtype)], 1)
        self._layer = below.gathered(book)
        self._norm = below.store_norm().float().to(dtype)

    def reading(self, windows: np.ndarray) -> Reading:
        """Signs, the constant and the token's own vector, as the store reads them for each window."""
        parts = [self._read(windows[at : at + _ROWS]) for at in range(0, len(windows), _ROWS)]
        ch, first = self.below.channels, self.below.channels.first
        rows = torch.cat(parts).double().numpy() if parts else np.zeros((0, ch.width))
        signs = [rows[:, ch["code"]], rows[:, ch["hash"]][:, : self.book.hashed]]
        constant = rows[:, [ch.at("plain")]] + rows[:, [ch.at("start")]]
        return Reading(np.hstack([*signs, constant, rows[:, :first]]), self.opened)

    def opened(self, inputs: np.ndarray, gate: np.ndarray) -> np.ndarray:
        """How far a gate of the store is open for each row of inputs."""
        rows, weights = (torch.tensor(one).float().to(self.dtype) for one in (inputs[:, : len(gate)], gate * SHARPER))
        opens: np.ndarray = (silu(linear(rows, weights[None])).double()[:, 0] / SHARPER).numpy()
        return opens

    def _read(self, windows: np.ndarray) -> Tensor:
        layer, body = self._layer, self.below.body
        stream = self._embedding[torch.tensor(windows)]
        normed = self._normed(stream, self._of(layer.norm))
        values = linear(normed, self._of(layer.value))
        heads = torch.zeros(len(windows), body.heads * body.head, dtype=self.dtype)
        for place in range(self.book.reach):
            group = place // body.repeat
            heads[:, layer.head(place)] = values[:, place, layer.head(group)]
        here = stream[:, 0] + linear(heads, self._of(layer.out))
        inner = self._normed(here, self._of(layer.norm))
        opens, up = (linear(inner, self._of(one[: layer.used])) for one in (layer.gate, layer.up))
        here = here + linear(silu(opens) * up, self._of(layer.down[:, : layer.used]))
        return self._normed(here, self._norm)

    def _of(self, weights: Tensor) -> Tensor:
        return weights.float().to(self.dtype)

    def _normed(self, stream: Tensor, weight: Tensor) -> Tensor:
        """The stock norm: in float32, rounded before and after its weights."""
        body = self.below.body
        wide = stream.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + body.eps * body.width / self.below.channels.width)
        return weight * (wide * scale).to(self.dtype)


def formats(
    body: Body, plan: Plan, book: Codebook, marks: Marks, embedding: Tensor, small: float
) -> tuple[Rounded, ...]:
    """The formats that maps are made for beside float32.

    None with levels of many bits: they are too near to each other, and groups would have to be far smaller.
    """
    short = (torch.bfloat16, torch.float16) if plan.depth <= _DEEP else ()
    return tuple(Rounded(body, plan, book, marks, embedding, small, dtype) for dtype in short)
