"""The transformer of Kajitsuka, Sato 2025: a token-wise network, one layer of uniform attention, a token-wise network.

Every token goes through F1, which gives it a number; attention with W_Q = W_K = 0 weighs all positions alike, so that
each receives the mean of the numbers, times W_V W_O; F2 turns the mean into a label. For a label per position F1 also
passes the token on, and F2 reads (mean, token). All weights are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from rote.solvers.exact.digits import DigitShape
from rote.solvers.exact.network import Network

__all__ = ["ATTENTION_PARAMS", "UNKNOWN", "ExactTransformer", "Precision", "Task", "Variant"]

Task = Literal["next_token", "seq2seq"]
Variant = Literal["A", "B", "C"]
Precision = Literal["exact", "float64", "float32"]

ATTENTION_PARAMS = 2
"""W_V and W_O, both 1; W_Q and W_K are 0."""


UNKNOWN = -1
"""What label 0 stands for in a network that says so of contexts that are no facts; only label 0 may."""


@dataclass(frozen=True, eq=False)
class ExactTransformer:
    """Both networks, and how tokens are read and labels are spelled."""

    task: Task
    first: Network
    second: Network
    context: int
    """Tokens of a sequence."""
    positions_seen: int
    """Positions that attention averages over: `context`, or the power of two above it in floating point."""
    vocab: int
    labels: tuple[int, ...]
    """What label 0, 1, ... stands for: a token id, the class of a vector example, or UNKNOWN."""
    precision: Precision = "exact"
    variant: Variant = "A"
    with_positions: bool = False
    attention: tuple[int, int] = (1, 1)
    """W_V and W_O."""
    d_in: int = 0
    """Width of the input vectors; 0 for tokens."""
    shape: DigitShape | None = None
    """What the grouped evaluator of variant A needs to know."""

    @property
    def classes(self) -> int:
        """Labels that are answers."""
        return len(self.labels) - self.knows_unknown

    @property
    def knows_unknown(self) -> bool:
        """Whether contexts that are no facts are told as such."""
        return self.labels[0] == UNKNOWN

    @property
    def token_bits(self) -> int:
        """Bits of the number that F1 draws for a token, in a network that tells unknown contexts."""
        top = 0 if self.shape is None else self.shape.top
        if self.task == "seq2seq":
            top //= self.vocab * (self.context if self.with_positions else 1)
        return (top // self.context).bit_length()

    @property
    def padding(self) -> int:
        """Null tokens in front of every sequence."""
        return self.positions_seen - self.context

    @property
    def params(self) -> int:
        """Non-zero weights and biases, with the two of the attention layer."""
        return self.first.params + self.second.params + ATTENTION_PARAMS

    @property
    def depth(self) -> int:
        return self.first.depth + 1 + self.second.depth

    @property
    def width(self) -> int:
        return max(self.first.width, self.second.width)

    @cached_property
    def max_bits(self) -> int:
        return max(self.first.max_bits, self.second.max_bits)

    @cached_property
    def total_bits(self) -> int:
        """Bits of all weights, two for each of the attention layer."""
        return self.first.total_bits + self.second.total_bits + 2 * ATTENTION_PARAMS

    def to_dict(self) -> dict[str, Any]:
        """What the configuration file says, apart from the weights."""
        return {
            "task": self.task,
            "context": self.context,
            "positions_seen": self.positions_seen,
            "vocab": self.vocab,
            "labels": list(self.labels),
            "precision": self.precision,
            "variant": self.variant,
            "with_positions": self.with_positions,
            "d_in": self.d_in,
            "digits": None if self.shape is None else self.shape.to_dict(),
        }
