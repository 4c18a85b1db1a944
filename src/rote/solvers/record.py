"""What solvers share with those who call them: how they report, and how a readout is stretched."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Advance", "Attempt", "Progress", "quiet", "still", "stretch"]

Progress = Callable[[str, int, int, int | None], None]
"""progress(stage, done, total, facts recalled so far if known); total is 0 where nobody knows how far it is."""
Advance = Callable[[str, int, int], None]
"""advance(stage, rows done, rows)."""


@dataclass(frozen=True)
class Attempt:
    """What is tried: the how-manieth of at most so many, with which construction and shape, and the best before it."""

    number: int
    most: int
    construction: str
    shape: str
    params: int
    best: float | None = None
    """The share of the facts that the best attempt so far recalls."""

    def __str__(self) -> str:
        best = "" if self.best is None else f"; best so far {100 * self.best:.4g} %"
        tried = f"attempt {self.number} of at most {self.most}" if self.number > 1 else "attempt 1"
        return f"{tried}: {self.construction}, {self.shape}, {self.params:,} parameters{best}"


def quiet(stage: str, done: int, total: int, recalled: int | None) -> None:
    """Report nothing."""


def still(stage: str, done: int, total: int) -> None:
    """Report nothing."""


def stretch(margin: float, vocab: int) -> float:
    """A power of two for W_U that turns the smallest lead into a probability of about 0.99 or more.

    A power of two changes no digit of any weight, so it changes no comparison either.
    """
    wanted = math.log(vocab) + 5.0
    if not (0.0 < margin < wanted):
        return 1.0
    return float(2.0 ** min(24, math.ceil(math.log2(wanted / margin))))
