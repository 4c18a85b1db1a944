"""The reference transformer: one attention layer over token and position vectors, an optional gated MLP, a readout.

    x_s    = W_E[t_s] + W_pos[s]
    a^h_s  = softmax over s of  (W_Q^h x_S) . (W_K^h x_s)          no 1/sqrt scaling: it is part of W_Q
    y      = x_S + sum_h W_O^h W_V^h sum_s a^h_s x_s               read at the last position S
    y'     = y + W_down (act(W_gate y) * (W_up y))                 only with an MLP
    logits = W_U y'

Shapes: W_E (N, d), W_pos (S, d), W_Q and W_K (H, r, d) with r = d_h, or r = 1 for rank-1 QK, W_V (H, d_h, d),
W_O (H, d, d_h), W_gate and W_up (m, d), W_down (d, m), W_U (N, d). No biases, no normalisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from rote.config import Architecture
from rote.errors import CheckpointError, ShapeError

__all__ = ["ACTIVATIONS", "Activation", "Transformer"]

Activation = Literal["identity", "silu"]
ACTIVATIONS: tuple[Activation, ...] = ("identity", "silu")


class Transformer(nn.Module):
    """A one-layer transformer with given weights; `forward` maps contexts to logits at the last position."""

    W_E: Tensor
    W_pos: Tensor
    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor
    W_U: Tensor
    W_gate: Tensor
    W_up: Tensor
    W_down: Tensor

    def __init__(
        self, arch: Architecture, weights: Mapping[str, Tensor], *, activation: Activation = "identity"
    ) -> None:
        super().__init__()
        if arch.n_layers != 1:
            raise ShapeError(f"the reference transformer has one layer, got n_layers = {arch.n_layers}.")
        self.arch = arch
        self.activation = activation
        expected = self.shapes(arch, qk_rank=int(weights["W_Q"].shape[1]) if "W_Q" in weights else arch.d_head)
        for name, shape in expected.items():
            if name not in weights:
                raise CheckpointError(f"the weights lack {name}; the file is incomplete or of another model.")
            if tuple(weights[name].shape) != shape:
                raise CheckpointError(f"{name} has shape {tuple(weights[name].shape)}, this model needs {shape}.")
            self.register_parameter(name, nn.Parameter(weights[name].detach().clone(), requires_grad=False))
        for name in weights:
            if name not in expected:
                raise CheckpointError(f"the weights hold {name!r}, which this model does not have.")

    @staticmethod
    def shapes(arch: Architecture, *, qk_rank: int | None = None) -> dict[str, tuple[int, ...]]:
        """The tensors of a shape, by name."""
        h, d, w, r = arch.n_heads, arch.d_model, arch.d_head, arch.d_head if qk_rank is None else qk_rank
        found: dict[str, tuple[int, ...]] = {
            "W_E": (arch.vocab, d),
            "W_pos": (arch.context, d),
            "W_Q": (h, r, d),
            "W_K": (h, r, d),
            "W_V": (h, w, d),
            "W_O": (h, d, w),
            "W_U": (arch.vocab, d),
        }
        if arch.d_mlp:
            found |= {"W_gate": (arch.d_mlp, d), "W_up": (arch.d_mlp, d), "W_down": (d, arch.d_mlp)}
        return found

    @property
    def qk_rank(self) -> int:
        return int(self.W_Q.shape[1])

    @property
    def n_stored(self) -> int:
        """Numbers in the file, which is fewer than the full count where QK has rank 1."""
        return sum(p.numel() for p in self.parameters())

    def attention(self, tokens: Tensor) -> Tensor:
        """Attention weights (B, H, S) of the last position over the context."""
        x = self._embed(tokens)
        q = torch.einsum("hrd,bd->bhr", self.W_Q, x[:, -1])
        # Keys in the query's coordinates: one vector of width d for each head, instead of S keys for each head.
        probe = torch.einsum("bhr,hrd->bhd", q, self.W_K)
        return torch.softmax(torch.einsum("bhd,bsd->bhs", probe, x), dim=-1)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, N) for contexts (B, S) of token ids."""
        x = self._embed(tokens)
        mixed = torch.einsum("bhs,bsd->bhd", self.attention(tokens), x)
        values = torch.einsum("hwd,bhd->bhw", self.W_V, mixed)
        y = x[:, -1] + torch.einsum("hdw,bhw->bd", self.W_O, values)
        if self.arch.d_mlp:
            gate = y @ self.W_gate.T
            if self.activation == "silu":
                gate = nn.functional.silu(gate)
            y = y + (gate * (y @ self.W_up.T)) @ self.W_down.T
        return y @ self.W_U.T

    def _embed(self, tokens: Tensor) -> Tensor:
        if tokens.ndim != 2 or tokens.shape[1] != self.arch.context:
            raise ShapeError(f"contexts have {self.arch.context} tokens, got an array of shape {tuple(tokens.shape)}.")
        return self.W_E[tokens] + self.W_pos
