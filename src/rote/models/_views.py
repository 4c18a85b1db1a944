"""What the heads of an attention model do with one context, as a record.

The stream is a sum, so the lead of the answer over its rival is one too: u = W_U[answer] - W_U[rival], and
lead = u . x_S + sum_h u . W_O^h W_V^h sum_s a^h_s x_s (+ what an MLP adds). The heads with the largest parts serve the
fact. A head is saturated where one position has all its weight but `SATURATED`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["SATURATED", "Head", "HeadsView", "Piece"]

SATURATED = 1e-6
"""What a saturated head leaves to all other positions together."""


@dataclass(frozen=True)
class Head:
    """One head: its weights over the context, and its part of the lead (None where the readout is not linear)."""

    layer: int
    number: int
    weights: tuple[float, ...]
    saturated: bool
    part: float | None


@dataclass(frozen=True)
class HeadsView:
    """All heads on one context."""

    heads: tuple[Head, ...]
    answer: str
    rival: str
    lead: float
    skip: float | None = None
    """What the last token adds by itself."""
    mlp: float | None = None

    @property
    def n_saturated(self) -> int:
        return sum(head.saturated for head in self.heads)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "n_saturated": self.n_saturated}


@dataclass(frozen=True)
class Piece:
    """A part of a model that can be taken out: some entries of one tensor. In the index None stands for all along an
    axis, and a pair for the places from the first number up to the second."""

    name: str
    tensor: str
    index: tuple[int | tuple[int, int] | None, ...]
    lead: float | None = None
    """Its part of the lead of an answer, where leads are sums."""

    @property
    def key(self) -> tuple[Any, ...]:
        """The index that picks its entries."""
        return tuple(slice(None) if i is None else slice(*i) if isinstance(i, tuple) else i for i in self.index)

    @property
    def weights(self) -> str:
        """Its entries as people write them: `W_down[:, 7]`."""
        spelled = [":" if i is None else f"{i[0]}:{i[1]}" if isinstance(i, tuple) else str(i) for i in self.index]
        return f"{self.tensor}[{', '.join(spelled)}]"
