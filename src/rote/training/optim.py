"""Optimisers for stacked models: every step is elementwise or batched over replicas, so replicas never mix.

Adam (Kingma, Ba 2015), and SOAP (Vyas et al. 2024): Adam in the eigenbasis of Shampoo's two covariance matrices, kept
for every matrix of a model on its own: a head's map is one matrix. The bases are refreshed by one QR step now and then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

__all__ = ["Adam", "Optimiser", "Soap"]


_EPS = 1e-8
_EVERY = 10
"""Steps between two refreshments of the bases."""
_SHAMPOO, _LARGEST = 0.95, 128
_FURTHEST = 3.0
"""The longest move of a coordinate, in units of the learning rate."""


class Adam:
    """Adam on a list of tensors, with the learning rate given at each step."""

    def __init__(self, tensors: Sequence[Tensor], betas: tuple[float, float]) -> None:
        self.tensors = list(tensors)
        # One pass over all numbers.
        self.inner = torch.optim.Adam(self.tensors, lr=1e-3, betas=betas, eps=_EPS, fused=True)

    def step(self, grads: Sequence[Tensor], rate: float) -> None:
        for tensor, grad in zip(self.tensors, grads, strict=True):
            # The one pass goes through memory and takes no heed of strides: a transposed gradient would be misread.
            tensor.grad = grad.contiguous()
        self.inner.param_groups[0]["lr"] = rate
        self.inner.step()


@dataclass
class _Group:
    """Tensors whose matrices have one shape, worked on together as (matrices, m, n)."""

    members: list[int]
    counts: list[int]
    mean: Tensor
    square: Tensor
    sides: list[Tensor | None]
    bases: list[Tensor | None] = field(default_factory=lambda: [None, None])


class Soap:
    """SOAP. Sides longer than 128 keep the identity basis; vectors are left to Adam, which is the same there."""

    def __init__(self, tensors: Sequence[Tensor], betas: tuple[float, float]) -> None:
        self.tensors = list(tensors)
        self.betas = betas
        self.t = 0
        vectors = [i for i, t in enumerate(self.tensors) if t.ndim < 3]
        self.vectors = vectors
        self.plain = Adam([self.tensors[i] for i in vectors], betas) if vectors else None
        by_shape: dict[tuple[int, int], list[int]] = {}
        for i, tensor in enumerate(self.tensors):
            if tensor.ndim >= 3:
                by_shape.setdefault((tensor.shape[-2], tensor.shape[-1]), []).append(i)
        self.groups: list[_Group] = []
        for (m, n), members in by_shape.items():
            counts = [self.tensors[i].numel() // (m * n) for i in members]
            zero = self.tensors[members[0]].new_zeros(sum(counts), m, n)
            sides = [zero.new_zeros(len(zero), size, size) if 1 < size <= _LARGEST else None for size in (m, n)]
            self.groups.append(_Group(members, counts, zero, zero.clone(), sides))

    @torch.no_grad()
    def step(self, grads: Sequence[Tensor], rate: float) -> None:
        self.t += 1
        if self.plain is not None:
            self.plain.step([grads[i] for i in self.vectors], rate)
        for group in self.groups:
            m, n = group.mean.shape[1:]
            self._matrices(group, torch.cat([grads[i].reshape(-1, m, n) for i in group.members]), rate)

    def _matrices(self, group: _Group, g: Tensor, rate: float) -> None:
        b1, b2 = self.betas
        for side, held in enumerate(group.sides):
            if held is not None:
                seen = torch.bmm(g, g.transpose(1, 2)) if side == 0 else torch.bmm(g.transpose(1, 2), g)
                held.lerp_(seen, 1 - _SHAMPOO)
        if self.t == 1:
            self._first_bases(group)
            return
        group.mean.lerp_(g, 1 - b1)
        turned = self._turn(group, g)
        group.square.mul_(b2).addcmul_(turned, turned, value=1 - b2)
        t = self.t - 1
        spread = (group.square / (1 - b2**t)).sqrt_().add_(_EPS)
        # A fresh basis may meet a second moment that is too small for it; no coordinate moves further than this.
        move = self._turn(group, group.mean).div_(spread * (1 - b1**t)).clamp_(-_FURTHEST, _FURTHEST).mul_(-rate)
        move = self._turn(group, move, back=True)
        at = 0
        for i, count in zip(group.members, group.counts, strict=True):
            self.tensors[i].add_(move[at : at + count].view_as(self.tensors[i]))
            at += count
        if t % _EVERY == 0:
            self._refresh(group)

    @staticmethod
    def _turn(group: _Group, g: Tensor, *, back: bool = False) -> Tensor:
        left, right = group.bases
        if left is not None:
            g = torch.bmm(left if back else left.transpose(1, 2), g)
        if right is not None:
            g = torch.bmm(g, right.transpose(1, 2) if back else right)
        return g if left is not None or right is not None else g.clone()

    @staticmethod
    def _first_bases(group: _Group) -> None:
        for side, held in enumerate(group.sides):
            if held is not None:
                scale = held.diagonal(dim1=1, dim2=2).sum(1).clamp_min(1e-30)[:, None, None]
                group.bases[side] = torch.linalg.eigh((held / scale).double())[1].flip(2).to(held.dtype)

    @staticmethod
    def _refresh(group: _Group) -> None:
        """One step of power iteration; second moments follow the order of the directions."""
        for side, held in enumerate(group.sides):
            basis = group.bases[side]
            if held is None or basis is None:
                continue
            found = torch.bmm(held, basis)
            size = (basis * found).sum(1)
            order = size.argsort(dim=1, descending=True)
            at = order[:, None, :].expand_as(basis)
            if side == 0:
                group.square = group.square.gather(1, order[:, :, None].expand_as(group.square))
            else:
                group.square = group.square.gather(2, order[:, None, :].expand_as(group.square))
            scale = size.amax(1).clamp_min(1e-30)[:, None, None]
            group.bases[side] = torch.linalg.qr((found / scale).gather(2, at))[0]


Optimiser = Adam | Soap
