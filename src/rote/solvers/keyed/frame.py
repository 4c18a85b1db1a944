"""What the layers of a graft by keys share: what is to be built, its channels, and layers with heads that ask."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rote.solvers.keyed.layers import Body, Channels, Layer
from rote.solvers.keyed.store import coordinates_for

__all__ = ["SHARP", "VETO", "Frame", "Gate", "Jury", "Plan", "channels_of", "usual_size"]

SHARP = 32.0
"""How steep gates are: a whole above or below zero, they are open or shut for good."""
VETO = 1.0
"""How many times what a veto is below zero is taken from the score."""

_FEW = 2
"""Bits of a coordinate up to which 16 bits can say what lies between its levels."""


@dataclass(frozen=True)
class Gate:
    """A direction of the normalised state in a layer, and what is added to it: open where the sum is positive."""

    layer: int
    weights: np.ndarray
    bias: float
    size: float
    """The usual root mean square of the stream there."""


@dataclass(frozen=True)
class Jury:
    """Gates in layers one above the other, whose scores are added up: the last of them opens where that is positive."""

    gates: tuple[Gate, ...]
    vetoes: tuple[Gate, ...] = ()
    """Gates in layers before the last, the same for all juries: what one is below zero is taken from the score."""

    def moved(self, amount: float) -> Jury:
        """The same with an amount added to the score."""
        *early, last = self.gates
        return replace(self, gates=(*early, replace(last, bias=last.bias + amount)))


@dataclass(frozen=True)
class Plan:
    """What is to be built: bits of an answer's number in each relation, how many checks, the longest answer, steps that
    the last token does not tell apart, and bits of the hash.

    `verified` marks only keys that are stored, for tables whose keys are made of words that stand elsewhere too.
    """

    bits: tuple[int, ...]
    checks: int
    steps: int
    exact: tuple[int, ...]
    hashed: int
    verified: bool = False
    merged: bool = False
    """Whether one more layer below makes one of all forms of a key, behind a space, a bracket or whatever."""
    depth: int = 4
    """Bits of a coordinate: the more, the fewer neurons, and the nearer its levels are to what 16 bits tell apart."""

    @property
    def coordinates(self) -> int:
        return sum(coordinates_for(bits, self.depth) for bits in self.bits)

    @property
    def deep(self) -> bool:
        """Whether a coordinate has so many levels that those of each sign are fetched by themselves."""
        return self.depth > _FEW

    @property
    def relations(self) -> int:
        return len(self.bits)

    def inner(self, body: Body) -> int:
        """Neurons of every layer: those of the original, and some that tell what is asked: two a relation, one veto."""
        return body.inner + 8 * -(-(2 * self.relations + 1) // 8)


def channels_of(body: Body, bits: int, plan: Plan) -> tuple[Channels, Plan]:
    """Added channels; the hash gets what is left of a width that the heads divide."""
    read = plan.coordinates + plan.checks
    # On top, what only the layers below needed is wiped, and has room for what an opening gate found.
    found = (("held", sum(plan.bits) + 2), ("ago", plan.relations * len(plan.exact)))
    below = ("factor", "fine", "whole", "known", "last", "linked")
    fetched = plan.coordinates * (2 if plan.deep else 1) + plan.checks
    later = (
        ("fetched", max(fetched, sum(size for _, size in found) - len(below))),
        ("scale", 1),
        ("answer", sum(plan.bits)),
        ("wrong", 1),
        ("score", plan.relations),
        ("asked", plan.relations),
        ("recent", plan.relations),
        ("sure", int(plan.verified)),
    )
    need = max(plan.hashed, sum(size for _, size in later))
    fixed = 5 + bits + len(below) + read
    total = -(-(body.width + fixed + need) // body.heads) * body.heads
    hashed = total - body.width - fixed
    sizes = {
        "plain": 1,
        "start": 1,
        "one": 1,
        "size": 1,
        "mark": 1,
        "code": bits,
        # Not for what is found later: of tokens that end no key it may be large, and a little of it is left.
        "value": read,
        **dict.fromkeys(below, 1),
    }
    whole = replace(plan, hashed=hashed)
    return Channels(body.width, {**sizes, "hash": hashed}, {below[0]: found, "hash": later}), whole


def usual_size(sizes: Tensor) -> float:
    """About the usual size of an embedding: a power of two, so that what is written in it is not rounded in 16 bits."""
    return float(2.0 ** round(math.log2(float(sizes.median()))))


class Frame:
    """Sizes for all layers: of the stream, of what is stored in it, and of layers."""

    def __init__(self, body: Body, channels: Channels, plan: Plan, inner: int, usual: float, small: float) -> None:
        self.body, self.channels, self.plan = body, channels, plan
        self.inner, self.usual, self.small = inner, usual, small
        self.wide = math.sqrt(channels.width / body.width)

    def layer(self, reading: float = 1.0) -> Layer:
        return Layer(self.body, self.channels.width, self.inner, reading, self.small)

    def ask(self, layer: Layer, head: int, query: np.ndarray, scale: float, names: Sequence[str]) -> None:
        scaled = torch.tensor(query) * scale * math.sqrt(self.body.head)
        for name in names:
            layer.query[layer.head(head), self.channels.at(name)] = scaled
