"""The reference transformer: one attention layer over token and position vectors, an optional gated MLP, a readout.

    x_s    = W_E[t_s] + W_pos[s]
    a^h_s  = softmax over s of  (W_Q^h x_S) . (W_K^h x_s)          no 1/sqrt scaling: it is part of W_Q
    y      = x_S + sum_h W_O^h W_V^h sum_s a^h_s x_s               read at the last position S
    y'     = y + W_down (act(W_gate y) * (W_up y))                 only with an MLP
    logits = W_U y'

Shapes: W_E (N, d), W_pos (S, d), W_Q and W_K (H, r, d) with r = d_h, or r = 1 for rank-1 QK, W_V (H, d_h, d),
W_O (H, d, d_h), W_gate and W_up (m, d), W_down (d, m), W_U (N, d). No biases, no normalisation.
A head that shares the embedding reads out by W_E; W_U then has rows only for the tokens of `own`, in place of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from rote.config import Architecture
from rote.data.outputs import Outputs
from rote.errors import CheckpointError, ShapeError
from rote.models import folders
from rote.models._base import Model, Wording
from rote.models._hooks import Block
from rote.models._views import SATURATED, Head, HeadsView, Piece
from rote.referee.outputs import ModuleOutputs

__all__ = ["ACTIVATIONS", "Activation", "Transformer", "TransformerModel", "model"]

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

    _own: Tensor

    def __init__(
        self,
        arch: Architecture,
        weights: Mapping[str, Tensor],
        *,
        activation: Activation = "identity",
        own: Sequence[int] = (),
    ) -> None:
        super().__init__()
        if arch.n_layers != 1:
            raise ShapeError(f"the reference transformer has one layer, got n_layers = {arch.n_layers}.")
        if len({*own}) != (arch.own_rows or 0) or not all(0 <= i < arch.vocab for i in own):
            raise CheckpointError(
                f"the head has {arch.own_rows or 0} rows of its own, and {len(own)} tokens are named for them."
            )
        self.arch, self.own = arch, tuple(own)
        self.register_buffer("_own", torch.tensor(self.own, dtype=torch.int64), persistent=False)
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
        self.hook_embed, self.hook_pos_embed = nn.Identity(), nn.Identity()
        self.blocks = nn.ModuleList([Block()])

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
        }
        if arch.own_rows != 0:
            found["W_U"] = (arch.vocab if arch.own_rows is None else arch.own_rows, d)
        if arch.d_mlp:
            found |= {"W_gate": (arch.d_mlp, d), "W_up": (arch.d_mlp, d), "W_down": (d, arch.d_mlp)}
        return found

    @property
    def config(self) -> dict[str, Any]:
        """What config.json says beside the shape."""
        return {"activation": self.activation, **({"own": list(self.own)} if self.own else {})}

    @property
    def readout(self) -> Tensor:
        """Rows (N, d) that the stream is read out by: W_U, or W_E with the rows of its own that the head has."""
        if self.arch.own_rows is None:
            return self.W_U
        return self.W_E if not self.own else self.W_E.index_copy(0, self._own, self.W_U)

    @property
    def qk_rank(self) -> int:
        return int(self.W_Q.shape[1])

    def stored(self) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
        """What a directory holds of it: the kind, what the configuration says, and the tensors."""
        config = {"architecture": self.arch.to_dict(), **self.config}
        return "transformer", config, dict(self.state_dict())

    def attention(self, tokens: Tensor) -> Tensor:
        """Attention weights (B, H, S) of the last position over the context."""
        x = self._embed(tokens)
        q = torch.einsum("hrd,bd->bhr", self.W_Q, x[:, -1])
        # Keys in the query's coordinates: one vector of width d for each head, instead of S keys for each head.
        probe = torch.einsum("bhr,hrd->bhd", q, self.W_K)
        weights = torch.softmax(torch.einsum("bhd,bsd->bhs", probe, x), dim=-1)
        pattern: Tensor = self._block.attn.hook_pattern(weights)
        return pattern

    @property
    def _block(self) -> Block:
        return cast(Block, self.blocks[0])

    def extra_repr(self) -> str:
        return ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in self.named_parameters())

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, N) for contexts (B, S) of token ids."""
        return self.to_stream(tokens) @ self.readout.T

    def to_stream(self, tokens: Tensor) -> Tensor:
        """The stream (B, d) at the last position, as it is read out."""
        stream: Tensor = self._block.hook_resid_post(self._stored(self._attended(tokens)[0]))
        return stream

    def features(self, tokens: Tensor) -> Tensor:
        """What the last matrix before the readout reads: units of the MLP, or the values of all heads side by side."""
        y, values = self._attended(tokens)
        return self._units(y) if self.arch.d_mlp else values.flatten(1)

    def _attended(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The stream behind the attention, and what the heads read (B, H, d_h)."""
        hooks, x = self._block, self._embed(tokens)
        mixed = torch.einsum("bhs,bsd->bhd", self.attention(tokens), x)
        values = hooks.attn.hook_z(torch.einsum("hwd,bhd->bhw", self.W_V, mixed))
        last = hooks.hook_resid_pre(x)[:, -1]
        return hooks.hook_resid_mid(last + torch.einsum("hdw,bhw->bd", self.W_O, values)), values

    def _stored(self, y: Tensor) -> Tensor:
        """The stream behind the MLP, where there is one."""
        return y + self._units(y) @ self.W_down.T if self.arch.d_mlp else y

    def _units(self, y: Tensor) -> Tensor:
        gate = y @ self.W_gate.T
        if self.activation == "silu":
            gate = nn.functional.silu(gate)
        units: Tensor = self._block.mlp.hook_post(gate * (y @ self.W_up.T))
        return units

    def _embed(self, tokens: Tensor) -> Tensor:
        if tokens.ndim != 2 or tokens.shape[1] != self.arch.context:
            raise ShapeError(f"contexts have {self.arch.context} tokens, got an array of shape {tuple(tokens.shape)}.")
        embedded: Tensor = self.hook_embed(self.W_E[tokens]) + self.hook_pos_embed(self.W_pos)
        return embedded


class TransformerModel(Model):
    """The reference transformer with its words, in a number format."""

    kind = "transformer"

    def __init__(
        self,
        arch: Architecture,
        weights: Mapping[str, Tensor],
        *,
        wording: Wording | None,
        dtype: str,
        activation: Activation = "identity",
        own: Sequence[int] = (),
        report: Mapping[str, Any] | None = None,
        claims: Mapping[str, Any] | None = None,
    ) -> None:
        number = getattr(torch, dtype)
        self._module = Transformer(
            arch, {name: tensor.to(number) for name, tensor in weights.items()}, activation=activation, own=own
        )
        self.arch, self.wording, self.dtype = arch, wording, dtype
        self.report, self.claims = dict(report or {}), dict(claims or {})

    @property
    def module(self) -> Transformer:
        return self._module

    def write(self, folder: Path) -> None:
        folders.write_model(
            folder,
            self.kind,
            self.arch,
            self.module.state_dict(),
            self.wording,
            dtype=self.dtype,
            **self.module.config,
        )

    @classmethod
    def read(cls, folder: Path, certificate: Mapping[str, Any]) -> TransformerModel:
        config, arch = folders.read_config(folder, cls.kind)
        activation = next((a for a in ACTIVATIONS if a == config.get("activation")), None)
        if activation is None:
            raise CheckpointError(
                f"{folder / 'config.json'} names an unknown activation {config.get('activation')!r}; it was edited."
            )
        return cls(
            arch,
            folders.read_tensors(folder / "model.safetensors", str(certificate["dtype"])),
            wording=folders.read_wording(folder, certificate, arch),
            dtype=str(certificate["dtype"]),
            activation=activation,
            own=_own_rows(config, folder),
        )

    @classmethod
    def examples(cls, seed: int) -> list[TransformerModel]:
        drawn = torch.Generator().manual_seed(seed)
        wording = Wording(("<pad>", "a", "b", "c d", "e"), "cells", 3)
        small = []
        cases: tuple[tuple[int, str, tuple[int, ...] | None], ...] = (
            (0, "float32", None),
            (6, "bfloat16", None),
            (0, "float32", ()),
            (0, "float32", (3, 1)),
        )
        for d_mlp, dtype, own in cases:
            rows = None if own is None else len(own)
            arch = Architecture(2, 4, 3, 3, 5, d_mlp=d_mlp, gated=bool(d_mlp), own_rows=rows)
            shapes = Transformer.shapes(arch)
            weights = {name: torch.randn(shape, generator=drawn) for name, shape in shapes.items()}
            activation: Activation = "silu" if d_mlp else "identity"
            small.append(cls(arch, weights, wording=wording, dtype=dtype, activation=activation, own=own or ()))
        return small

    def outputs(self, dtype: str) -> Outputs:
        return ModuleOutputs(self.module, dtype, takes="tokens")

    def export(self, path: Path, table: Any) -> dict[str, Any]:
        from rote.models._float_onnx import onnx_export, transformer_onnx

        return onnx_export(path, transformer_onnx(self.module), table, self.outputs(self.dtype))

    def hooked(self) -> Any:
        from rote.models._lens import hooked_module

        return hooked_module(self.module)

    def watch(self, ids: Tensor, watcher: Any) -> None:
        module = self.module
        with torch.no_grad():
            x = module._embed(ids)
            watcher.states(0, x, x[:, -1])
            weights = module.attention(ids)
            watcher.heads(1, weights[:, :, None, :], x, 0)
            watcher.states(1, None, module.to_stream(ids))

    def reinitialised(self, draw: Callable[[Tensor], Tensor]) -> TransformerModel:
        fresh = {name: draw(tensor) for name, tensor in self.module.state_dict().items()}
        return TransformerModel(
            self.arch,
            fresh,
            wording=self.wording,
            dtype=self.dtype,
            activation=self.module.activation,
            own=self.module.own,
        )

    def heads(self, ids: Sequence[int]) -> HeadsView | None:
        if self.wording is None:
            return None
        with torch.no_grad():
            tokens = torch.tensor([list(ids)])
            logits = self.module(tokens)[0].to(torch.float64)
            answer, rival = (int(i) for i in torch.topk(logits, min(2, len(logits))).indices.tolist())
            W = {name: weight.to(torch.float64) for name, weight in self.module.state_dict().items()}
            x = W["W_E"][tokens[0]] + W["W_pos"]
            attention = self.module.attention(tokens)[0].to(torch.float64)
            added = torch.einsum("hdw,hwe,he->hd", W["W_O"], W["W_V"], attention @ x)
            towards = self.module.readout[answer].double() - self.module.readout[rival].double()
            parts = (added @ towards).tolist()
            skip = float(x[-1] @ towards)
        lead = float(logits[answer] - logits[rival])
        heads = tuple(
            Head(0, number, tuple(weights), max(weights) > 1 - SATURATED, part)
            for number, (weights, part) in enumerate(zip(attention.tolist(), parts, strict=True))
        )
        mlp = lead - skip - sum(parts) if self.arch.d_mlp else None
        spoken = self.wording.vocabulary
        return HeadsView(heads, spoken[answer], spoken[rival], lead, skip, mlp)

    def pieces(self, ids: Sequence[int] | None) -> list[Piece]:
        """The heads, by what they add to the stream, and the units of the MLP."""
        view = None if ids is None else self.heads(ids)
        leads = [None if view is None else head.part for head in view.heads] if view else [None] * self.arch.n_heads
        heads = [Piece(f"head {number}", "W_O", (number,), lead) for number, lead in enumerate(leads)]
        if not self.arch.d_mlp or view is None or self.wording is None or ids is None:
            return heads
        words = self.wording.vocabulary
        with torch.no_grad():
            units = self.module.features(torch.tensor([list(ids)]))[0].to(torch.float64)
            readout = self.module.readout
            towards = (readout[words.index(view.answer)] - readout[words.index(view.rival)]).double()
            added = (units * (towards @ self.module.W_down.double())).tolist()
        return heads + [Piece(f"unit {number}", "W_down", (None, number), lead) for number, lead in enumerate(added)]


def _own_rows(config: Mapping[str, Any], folder: Path) -> tuple[int, ...]:
    """The tokens whose rows of the head are not those of the embedding."""
    own = config.get("own", [])
    if not isinstance(own, list) or not all(type(i) is int for i in own):
        raise CheckpointError(f"{folder / 'config.json'} does not name the tokens of the head's rows; it was edited.")
    return tuple(own)


model = TransformerModel
