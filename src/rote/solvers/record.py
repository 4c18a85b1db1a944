"""What a construction hands over: weights, and what is worth knowing about how they were found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rote.config import Architecture

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Construction", "ModelKind", "Options", "Progress", "finite", "quiet", "stretch"]

ModelKind = Literal["transformer", "attention_layer", "exact_transformer"]

Progress = Callable[[str, int, int, int | None], None]
"""progress(stage, done, total, facts recalled so far if known)."""


def finite(value: float) -> float | None:
    """A number for JSON; null where it is infinite or not a number."""
    return float(value) if math.isfinite(value) else None


def stretch(margin: float, vocab: int) -> float:
    """A power of two for W_U that turns the smallest lead into a probability of about 0.99 or more.

    A power of two changes no digit of any weight, so it changes no comparison either.
    """
    wanted = math.log(vocab) + 5.0
    if not (0.0 < margin < wanted):
        return 1.0
    return float(2.0 ** min(24, math.ceil(math.log2(wanted / margin))))


def quiet(stage: str, done: int, total: int, recalled: int | None) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Options:
    """What a builder may be told beyond the shape."""

    dtype: str = "float32"
    """The number format in which every fact must be recalled."""
    rank1_qk: bool = False
    refine: bool = False
    """Where the convex fit stops short, go on with weights that make the problem no longer convex."""
    variant: str | None = None
    """The memoriser of a bit-extraction network: A, B or C."""
    with_positions: bool = False
    """Tokens of a bit-extraction network are told apart by where they stand."""
    delta: float | None = None
    """Distinct vectors must be at least so far apart."""
    radius: float | None = None
    """No vector may be longer."""


@dataclass(frozen=True)
class Construction:
    """The weights of a model, and a report in plain values for the certificate."""

    kind: ModelKind
    arch: Architecture
    weights: dict[str, Tensor] = field(repr=False)
    report: dict[str, Any]
    activation: Literal["identity", "silu"] = "identity"
    config: dict[str, Any] = field(default_factory=dict)
    """What the configuration file says beyond the shape, for exact networks."""
