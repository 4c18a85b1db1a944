"""The models that are trained, as data: a family, a shape, and how the weights are drawn.

    transformer   rote's reference transformer: positions in the stream, heads with maps of their own, optional MLP
    aot           Dana et al. 2025: positions beside the stream, added again in every layer; where d_h != d all heads
                  of a layer share one compression d -> d_h and one expansion d_h -> d; optional GELU MLP with one bias
    prenorm       a small standard transformer: layer norms before attention, MLP and readout, MLP with biases
    layer         Mahdavi et al. 2024: vectors in; a linear embedding, sinusoidal positions, d_v = 1, a linear decoder

Notation: L = n_layers, H = n_heads, d = d_model, d_h = d_head, m = d_mlp, S (or n) = context, N = vocab.
Attention scores are divided by sqrt(d_h), and by sqrt(d) in `layer`, as in the authors' programs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from rote.config import Architecture
from rote.data._arrays import FloatArray
from rote.errors import ShapeError, UnknownName

__all__ = ["FAMILIES", "Family", "ModelSpec", "check_family", "initial_weights"]

Family = Literal["transformer", "aot", "prenorm", "layer"]
FAMILIES: tuple[Family, ...] = get_args(Family)


def check_family(name: str) -> Family:
    """`name` as a family of models, or an error that lists the known ones."""
    for family in FAMILIES:
        if name == family:
            return family
    raise UnknownName("family of models", name, FAMILIES)


@dataclass(frozen=True)
class ModelSpec:
    """A family and a shape. In `layer`, which reads vectors, `arch.vocab` counts classes; `regression` means reals."""

    family: Family
    arch: Architecture
    regression: bool = False

    def __post_init__(self) -> None:
        check_family(self.family)
        if self.family == "layer" and (self.arch.n_layers != 1 or self.arch.d_mlp):
            raise ShapeError("the family 'layer' is one attention layer without an MLP; set n_layers = 1, d_mlp = 0.")
        if self.regression and self.family != "layer":
            raise ShapeError("real targets are for the family 'layer'; tokens have tokens as targets.")
        if self.arch.gated and self.family != "transformer":
            raise ShapeError("a gated MLP is for the family 'transformer'; set gated = false.")

    @property
    def takes_vectors(self) -> bool:
        return self.family == "layer"

    @property
    def compressed(self) -> bool:
        """All heads of a layer share one map d -> d_h."""
        return self.family == "aot" and self.arch.d_head != self.arch.d_model

    @property
    def width(self) -> int:
        """What the heads read: d, or d_h after a compression."""
        return self.arch.d_head if self.compressed else self.arch.d_model

    @property
    def outputs(self) -> int:
        return 1 if self.regression else self.arch.vocab

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The tensors of one model, by name; layers are numbered from 0."""
        a, w = self.arch, self.width
        if self.family == "layer":
            return {
                "W_in": (a.d_model, a.d_model),
                "b_in": (a.d_model,),
                "W_Q": (a.n_heads, a.d_head, a.d_model),
                "W_K": (a.n_heads, a.d_head, a.d_model),
                "W_V": (a.n_heads, 1, a.d_model),
                "W_O": (a.d_model, a.n_heads),
                "W_U": (self.outputs, a.d_model),
                "b_U": (self.outputs,),
            }
        found: dict[str, tuple[int, ...]] = {"W_E": (a.vocab, a.d_model), "W_pos": (a.context, w)}
        for layer in range(a.n_layers):
            if self.family == "prenorm":
                found |= {f"gain_att.{layer}": (a.d_model,), f"bias_att.{layer}": (a.d_model,)}
            if self.compressed:
                found |= {f"W_C.{layer}": (a.d_head, a.d_model), f"W_X.{layer}": (a.d_model, a.d_head)}
            found |= {f"{name}.{layer}": (a.n_heads, a.d_head, w) for name in ("W_Q", "W_K", "W_V")}
            found[f"W_O.{layer}"] = (a.n_heads, w, a.d_head)
            if a.d_mlp:
                if self.family == "prenorm":
                    found |= {f"gain_mlp.{layer}": (a.d_model,), f"bias_mlp.{layer}": (a.d_model,)}
                    found[f"b_down.{layer}"] = (a.d_model,)
                if a.gated:
                    found[f"W_gate.{layer}"] = (a.d_mlp, a.d_model)
                elif self.family != "transformer":
                    found[f"b_up.{layer}"] = (a.d_mlp,)
                found |= {f"W_up.{layer}": (a.d_mlp, a.d_model), f"W_down.{layer}": (a.d_model, a.d_mlp)}
        if self.family == "prenorm":
            found |= {"gain_out": (a.d_model,), "bias_out": (a.d_model,)}
        found["W_U"] = (a.vocab, a.d_model)
        return found

    @property
    def params(self) -> int:
        """Every number that is trained."""
        return sum(math.prod(shape) for shape in self.shapes.values())


def initial_weights(spec: ModelSpec, rng: np.random.Generator) -> dict[str, FloatArray]:
    """One model's weights, drawn as in the authors' programs; float64, in the order of `spec.shapes`."""
    found: dict[str, FloatArray] = {}
    for name, shape in spec.shapes.items():
        base = name.split(".", 1)[0]
        if base.startswith("gain"):
            found[name] = np.ones(shape)
        elif base.startswith("bias") or base == "b_down":
            found[name] = np.zeros(shape)
        else:
            reach = _reach(spec, base, shape)
            found[name] = rng.uniform(-reach, reach, size=shape)
    return found


def _reach(spec: ModelSpec, base: str, shape: tuple[int, ...]) -> float:
    """Half the width of the uniform distribution of a tensor's entries."""
    if spec.family == "layer":
        if base in ("W_Q", "W_K", "W_V"):
            return math.sqrt(6 / (shape[1] + shape[2]))
        if base == "W_O":
            return math.sqrt(6 / (shape[0] + shape[1]))
        return 1 / math.sqrt(spec.arch.d_model)
    if base in ("W_Q", "W_K", "W_V"):
        # One 3 d_h x width block, Xavier-uniform, as torch's multi-head attention draws it.
        return math.sqrt(6 / (3 * shape[1] + shape[2]))
    if base == "b_up":
        return 1 / math.sqrt(spec.arch.d_model)
    # Linear layers: one over the square root of what goes in, which is the last axis.
    return 1 / math.sqrt(shape[-1])
