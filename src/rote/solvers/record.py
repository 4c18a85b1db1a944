"""What solvers share with those who call them: how they report, and how a readout is stretched."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["Progress", "quiet", "stretch"]

Progress = Callable[[str, int, int, int | None], None]
"""progress(stage, done, total, facts recalled so far if known)."""


def quiet(stage: str, done: int, total: int, recalled: int | None) -> None:
    """Report nothing."""


def stretch(margin: float, vocab: int) -> float:
    """A power of two for W_U that turns the smallest lead into a probability of about 0.99 or more.

    A power of two changes no digit of any weight, so it changes no comparison either.
    """
    wanted = math.log(vocab) + 5.0
    if not (0.0 < margin < wanted):
        return 1.0
    return float(2.0 ** min(24, math.ceil(math.log2(wanted / margin))))
