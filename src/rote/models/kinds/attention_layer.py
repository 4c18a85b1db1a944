"""One multi-head attention layer over given vectors, with a linear readout (the model of Mahdavi et al. 2024).

    a^h = softmax over the n context rows of  E W_K^hT W_Q^h e
    out = sum_h W_O^h W_V^h E^T a^h

Shapes: W_Q and W_K (H, d_h, d), W_V (H, d_v, d), W_O (H, k, d_v); k outputs: one real label, or one score a class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rote.config import Architecture
from rote.data.outputs import Outputs
from rote.errors import CheckpointError, ShapeError
from rote.models import folders
from rote.models._base import Model, bare_usage
from rote.models._views import Piece
from rote.referee.outputs import ModuleOutputs

__all__ = ["AttentionLayer", "AttentionLayerModel", "model"]


class AttentionLayer(nn.Module):
    """A multi-head attention layer with given weights."""

    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor

    def __init__(self, arch: Architecture, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.arch = arch
        h, d, w = arch.n_heads, arch.d_model, arch.d_head
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            if name not in weights:
                raise CheckpointError(f"the weights lack {name}; the file is incomplete or of another model.")
        d_v, outputs = int(weights["W_V"].shape[1]), int(weights["W_O"].shape[1])
        expected = {"W_Q": (h, w, d), "W_K": (h, w, d), "W_V": (h, d_v, d), "W_O": (h, outputs, d_v)}
        for name, tensor in weights.items():
            if name not in expected:
                raise CheckpointError(f"the weights hold {name!r}, which this model does not have.")
            if tuple(tensor.shape) != expected[name]:
                raise CheckpointError(f"{name} has shape {tuple(tensor.shape)}, this model needs {expected[name]}.")
            self.register_parameter(name, nn.Parameter(tensor.detach().clone(), requires_grad=False))

    def stored(self) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
        """What a directory holds of it: the kind, what the configuration says, and the tensors."""
        return "attention_layer", {"architecture": self.arch.to_dict()}, dict(self.state_dict())

    def attention(self, contexts: Tensor, queries: Tensor) -> Tensor:
        """Attention weights (B, H, n); contexts are (B, n, d), or (n, d) when shared."""
        self._check(contexts, queries)
        probe = torch.einsum("bhr,hrd->bhd", torch.einsum("hrd,bd->bhr", self.W_Q, queries), self.W_K)
        equation = "bhd,nd->bhn" if contexts.ndim == 2 else "bhd,bnd->bhn"
        return torch.softmax(torch.einsum(equation, probe, contexts), dim=-1)

    def forward(self, contexts: Tensor, queries: Tensor) -> Tensor:
        """Outputs (B, k)."""
        weights = self.attention(contexts, queries)
        equation = "bhn,nd->bhd" if contexts.ndim == 2 else "bhn,bnd->bhd"
        mixed = torch.einsum(equation, weights, contexts)
        return torch.einsum("hkv,bhv->bk", self.W_O, torch.einsum("hvd,bhd->bhv", self.W_V, mixed))

    def _check(self, contexts: Tensor, queries: Tensor) -> None:
        d = self.arch.d_model
        if queries.ndim != 2 or queries.shape[1] != d:
            raise ShapeError(f"queries must be (examples, {d}), got {tuple(queries.shape)}.")
        if contexts.shape[-1] != d or (contexts.ndim == 3 and contexts.shape[0] != queries.shape[0]):
            raise ShapeError(f"contexts must be (n, {d}) or ({queries.shape[0]}, n, {d}), got {tuple(contexts.shape)}.")


class AttentionLayerModel(Model):
    """An attention layer over vectors, in a number format."""

    kind = "attention_layer"

    def __init__(
        self,
        arch: Architecture,
        weights: Mapping[str, Tensor],
        *,
        dtype: str,
        report: Mapping[str, Any] | None = None,
    ) -> None:
        number = getattr(torch, dtype)
        self._module = AttentionLayer(arch, {name: tensor.to(number) for name, tensor in weights.items()})
        self.arch, self.dtype, self.report = arch, dtype, dict(report or {})

    @property
    def module(self) -> AttentionLayer:
        return self._module

    @property
    def counts(self) -> dict[str, int]:
        return {"full": self.stored}

    def usage(self, name: str, question: str | None) -> list[str]:
        return [
            *bare_usage(name, "inputs = memory.table().inputs(slice(0, 3))  # vectors of three examples"),
            "print(memory.module(*(memory.module.W_O.new_tensor(part) for part in inputs)))",
            "print(memory.table().targets[:3])",
        ]

    def write(self, folder: Path) -> None:
        folders.write_model(folder, self.kind, self.arch, self.module.state_dict(), None, dtype=self.dtype)

    @classmethod
    def read(cls, folder: Path, certificate: Mapping[str, Any]) -> AttentionLayerModel:
        _, arch = folders.read_config(folder, cls.kind)
        dtype = str(certificate["dtype"])
        return cls(arch, folders.read_tensors(folder / "model.safetensors", dtype), dtype=dtype)

    @classmethod
    def examples(cls, seed: int) -> list[AttentionLayerModel]:
        drawn = torch.Generator().manual_seed(seed)
        shapes = {"W_Q": (2, 3, 4), "W_K": (2, 3, 4), "W_V": (2, 1, 4), "W_O": (2, 5, 1)}
        weights = {name: torch.randn(shape, generator=drawn) for name, shape in shapes.items()}
        return [cls(Architecture(2, 4, 3, 3, 5), weights, dtype="float32")]

    def outputs(self, dtype: str) -> Outputs:
        return ModuleOutputs(self.module, dtype, takes="vectors")

    def export(self, path: Path, table: Any) -> dict[str, Any]:
        from rote.models._float_onnx import layer_onnx, onnx_export

        return onnx_export(path, layer_onnx(self.module), table, self.outputs(self.dtype))

    def pieces(self, ids: Sequence[int] | None) -> list[Piece]:
        return [Piece(f"head {number}", "W_O", (number,)) for number in range(self.arch.n_heads)]


model = AttentionLayerModel
