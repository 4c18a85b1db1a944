"""What a construction hands over: weights, and what is worth knowing about how they were found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rote.config import Architecture

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Construction", "ModelKind", "Options", "Progress", "quiet"]

ModelKind = Literal["transformer", "attention_layer"]

Progress = Callable[[str, int, int, int | None], None]
"""progress(stage, done, total, facts recalled so far if known)."""


def quiet(stage: str, done: int, total: int, recalled: int | None) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Options:
    """What a builder may be told beyond the shape."""

    dtype: str = "float32"
    """The number format in which every fact must be recalled."""
    rank1_qk: bool = False
    tries: int = 5
    """Random draws to go through before giving up."""


@dataclass(frozen=True)
class Construction:
    """The weights of a model, and a report in plain values for the certificate."""

    kind: ModelKind
    arch: Architecture
    weights: dict[str, Tensor] = field(repr=False)
    report: dict[str, Any]
    activation: Literal["identity", "silu"] = "identity"
