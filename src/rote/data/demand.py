"""`Demand`: how many facts must fit, of which kind, and what is fixed about the shape. Plans are made from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rote.config import LARGEST, Architecture, Convention, Dtype
from rote.data.arguments import check_fields
from rote.errors import UsageError

__all__ = ["Demand"]


@dataclass(frozen=True)
class Demand:
    """How many facts must fit, of which kind, and what is fixed about the shape."""

    n_facts: int
    vocab: int
    context: int
    dtype: Dtype = "float32"
    d_model: int | None = None
    n_heads: int | None = None
    max_params: int | None = None
    distinct_last: int | None = None
    d_head: int | None = None
    n_targets: int | None = None
    """Distinct targets, where the data are known; all of the vocabulary otherwise."""
    n_tokens: int | None = None
    """Distinct tokens in contexts, where the data are known; all of the vocabulary otherwise."""
    telling: int | None = None
    """Positions that tell all contexts apart, where the data are known."""
    distinct_bags: int | None = None
    """Contexts that differ by more than the order of their tokens, where the data are known."""
    vectors: bool = False
    """Examples are vectors, so that contexts need no tokens to be told apart by."""
    shared_context: bool = False
    """All examples have one context."""
    structure_factors: tuple[float, ...] = ()
    """Shares of the planned size that are worth a try because the table is far from random."""
    ordered: bool = False
    """Contexts may differ by nothing but the order of their tokens."""
    convention: Convention = "full"
    """How the weights of a shape are counted."""
    both_sides: int | None = None
    """Answers that stand in contexts too, where the data are known: the head can share the embedding of all others."""

    def __post_init__(self) -> None:
        check_fields(self)
        least = {
            "n_facts": 1,
            "vocab": 2,
            "context": 1,
            "d_model": 1,
            "n_heads": 1,
            "max_params": 1,
            "distinct_last": 1,
            "d_head": 1,
            "n_targets": 1,
        }
        for name, minimum in least.items():
            value = getattr(self, name)
            if value is not None and value < minimum:
                raise UsageError(f"{name} must be at least {minimum}, got {value}.")
        for name in least:
            value = getattr(self, name)
            if value is not None and value > LARGEST:
                raise UsageError(f"{name} must be at most {LARGEST:,}, got {value:,}.")
        # In logarithms first: the number of contexts may have millions of digits.
        few = self.context * math.log2(self.vocab) < 64
        if not self.vectors and few and self.n_facts > self.vocab**self.context:
            raise UsageError(
                f"a vocabulary of {self.vocab} has only {self.vocab**self.context:,} distinct contexts of length "
                f"{self.context}, so {self.n_facts:,} facts cannot be told apart; "
                "take longer contexts or a larger vocabulary, or ask for fewer facts."
            )

    def shape(self, n_heads: int, d_model: int, d_head: int, **more: Any) -> Architecture:
        """A shape for these contexts and tokens; its head shares the embedding where that is worth it."""
        own = self.both_sides if self.unshared is None else None
        return Architecture(n_heads, d_model, d_head, self.context, self.vocab, own_rows=own, **more)

    @property
    def unshared(self) -> str | None:
        """Why a head does not share the embedding; None where it does."""
        if self.both_sides is None:
            return "nobody knows whether answers stand in contexts"
        if 2 * self.both_sides > self.vocab:
            return "most tokens are answers and stand in contexts"
        # Sharing takes rows of very different lengths.
        return "float16 has too few exponents for it" if self.dtype == "float16" else None

    def cost(self, arch: Architecture) -> tuple[int, int]:
        """What shapes are compared by: weights as they are counted, and of equal ones the fewer, wider heads."""
        return arch.params(self.convention), arch.n_heads
