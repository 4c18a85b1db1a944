"""A wider stream, and layers for it: what the original has, padded with zeros, and decoder layers filled by hand.

The added channels hold values times a small number, so that the original's norms do not see them; norms of added
layers multiply it away. Below the original's first layer the root mean square of a position is that of its token's
embedding, so a value stored times that number is read exactly, whatever the token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rote.errors import CapacityError, UsageError
from rote.solvers.keyed.units import READING

__all__ = ["GAIN", "Body", "Channels", "Layer", "body_of", "widened"]

GAIN = 32.0
"""How much more the norms of added layers may multiply by, so that float16 holds their weights."""


@dataclass(frozen=True)
class Body:
    """Sizes of a pretrained model, and the numbers that its norms and phases are made of."""

    width: int
    heads: int
    groups: int
    head: int
    inner: int
    layers: int
    eps: float
    thetas: tuple[float, ...]
    context: int

    @property
    def repeat(self) -> int:
        return self.heads // self.groups


def body_of(model: Any) -> Body:
    """The sizes of a loaded model; phases that change with the length of the text are refused."""
    config, rotary = model.config, model.model.rotary_emb
    kind = str(getattr(rotary, "rope_type", "default"))
    if kind not in ("default", "linear", "llama3", "yarn"):
        raise UsageError(f"the model's rotary phases are of the type {kind!r}, which change with the text's length.")
    heads = int(config.num_attention_heads)
    return Body(
        int(config.hidden_size),
        heads,
        int(config.num_key_value_heads or heads),
        int(getattr(config, "head_dim", None) or config.hidden_size // heads),
        int(config.intermediate_size),
        int(config.num_hidden_layers),
        float(config.rms_norm_eps),
        tuple(float(theta) for theta in rotary.inv_freq.double()),
        min(8192, int(config.max_position_embeddings)),
    )


class Channels:
    """Names of the added channels, in order from `first` on."""

    def __init__(self, first: int, sizes: Mapping[str, int], inside: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        self.first, self._at = first, {}
        at = first
        for name, size in sizes.items():
            self._at[name] = slice(at, at + size)
            for part, length in inside.get(name, ()):
                self._at[part] = slice(at, at + length)
                at += length
            at = self._at[name].stop
        self.width = at

    def __getitem__(self, name: str) -> slice:
        return self._at[name]

    def at(self, name: str, number: int = 0) -> int:
        return int(self._at[name].start) + number


class Layer:
    """One decoder layer over the wider stream, all zeros at first; `inner` neurons, filled one after the other."""

    def __init__(self, body: Body, width: int, inner: int, reading: float, small: float) -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=torch.float64)

        self.body, self.width, self.inner, self.small = body, width, inner, small
        self.query, self.key = zeros(body.heads * body.head, width), zeros(body.groups * body.head, width)
        self.value, self.out = zeros(body.groups * body.head, width), zeros(width, body.heads * body.head)
        self.gate, self.up, self.down = zeros(inner, width), zeros(inner, width), zeros(width, inner)
        self.norm = zeros(width)
        # What does not fit into a weight of the norm in float16 goes into those that read it.
        self.reading = max(1.0, reading / GAIN)
        self.norm[body.width :] = reading / self.reading * READING / small
        self.used = 0

    @property
    def free(self) -> int:
        return self.inner - self.used

    def head(self, number: int) -> slice:
        return slice(number * self.body.head, (number + 1) * self.body.head)

    def neuron(self, gate: Mapping[int, float], up: Mapping[int, float], down: Mapping[int, float] | Tensor) -> None:
        """silu(gate) * up, added to the stream; amounts written to added channels are in their own unit."""
        i = self.used
        if i >= self.inner:
            raise CapacityError(
                f"an added layer would need more than {self.inner:,} neurons, as many as layers of the model have and "
                "gates take; graft on a model with wider layers, or a table of fewer different words."
            )
        self.used += 1
        for matrix, row in ((self.gate, gate), (self.up, up)):
            for channel, weight in row.items():
                matrix[i, channel] += weight
        if isinstance(down, Tensor):
            self.down[: len(down), i] = down
            return
        for channel, weight in down.items():
            self.down[channel, i] += weight * self.small

    def _bias(self, name: str, shape: torch.Size) -> tuple[int, ...]:
        """The shape of a bias in a layer as wide as this one; `shape` is that of the original's."""
        if name.startswith(("self_attn.o_proj", "mlp.down_proj")):
            return (self.width,)
        return (self.inner,) if name.startswith("mlp.") else tuple(shape)

    def tensors(self, like: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
        """The layer under its names in a checkpoint; `like` are the tensors of a layer of the original."""
        ours = {
            "self_attn.q_proj.weight": self.query,
            "self_attn.k_proj.weight": self.key,
            "self_attn.v_proj.weight": self.value,
            "self_attn.o_proj.weight": self.out,
            "mlp.gate_proj.weight": self.gate,
            "mlp.up_proj.weight": self.up,
            "mlp.down_proj.weight": self.down,
            "input_layernorm.weight": self.norm,
            "post_attention_layernorm.weight": self.norm,
        }
        # Where queries and keys are normalised, the weights of their norms give them their sizes back.
        for name, matrix in (("q", self.query), ("k", self.key)):
            longest = float(matrix.reshape(-1, self.body.head, self.width).pow(2).sum(1).max().sqrt())
            ours[f"self_attn.{name}_norm.weight"] = torch.full((self.body.head,), longest / self.body.head**0.5)
        named = {}
        for name, tensor in like.items():
            value = ours.get(name, torch.zeros(self._bias(name, tensor.shape)))
            if value.dim() == 2 and not name.startswith(("self_attn.o_", "mlp.down_")):
                value = torch.cat([value[:, : self.body.width], value[:, self.body.width :] * self.reading], 1)
            named[f"model.layers.{number}.{name}"] = value.to(torch.float32).contiguous()
        return named


def widened(name: str, tensor: Tensor, body: Body, width: int, inner: int) -> Tensor:
    """A tensor of the original for a stream of `width` and layers of `inner` neurons: more zeros, norms rescaled."""
    rows, columns = tensor.shape[0], tensor.shape[-1]
    last = name.rsplit(".", 2)[-2]
    if last in ("embed_tokens", "lm_head", "q_proj", "k_proj", "v_proj") and tensor.dim() == 2:
        return _padded(tensor, rows, width)
    if last in ("gate_proj", "up_proj"):
        return _padded(tensor, inner, width) if tensor.dim() == 2 else _padded(tensor[None], 1, inner)[0]
    if last == "o_proj" and tensor.dim() == 2:
        return _padded(tensor, width, columns)
    if last == "down_proj" and tensor.dim() == 2:
        return _padded(tensor, width, inner)
    if tensor.dim() == 1 and last in ("input_layernorm", "post_attention_layernorm", "norm"):
        # In float32 even where the original is shorter: the factor is no power of two.
        scaled = (tensor.double() * math.sqrt(body.width / width)).float()
        return _padded(scaled[None], 1, width)[0]
    if tensor.dim() == 1 and last in ("o_proj", "down_proj"):
        return _padded(tensor[None], 1, width)[0]
    return tensor


def _padded(tensor: Tensor, rows: int, columns: int) -> Tensor:
    wider = torch.zeros(rows, columns, dtype=tensor.dtype)
    wider[: tensor.shape[0], : tensor.shape[1]] = tensor
    return wider
