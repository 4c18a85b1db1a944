"""Heads that look at one place of a prompt, by rotary positions alone, and what they see in shorter prompts.

Query and key are constants; rotary positions turn them by the position times theta^(-2 i / d_head), so that the score
of a key at distance t for a head that looks for distance o is a sum of cos(theta^(-2 i / d_head) (t - o)). Scores are
worked out as the library does, every product rounded to the number format, and stretched until exp of the difference
between the best and the second best is 0 in every format.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

__all__ = ["FARTHEST", "Gaze", "Turn", "gaze", "narrowest_turns", "query", "rounded", "sharpness"]

FloatArray = npt.NDArray[np.float64]
SIGNIFICANT = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
SATURATED = 110.0
"""exp(-110) is 0 in float32, in which scores are weighed."""
LARGEST = {"bfloat16": 2.0**13, "float16": 2.0**15, "float32": 2.0**30, "float64": 2.0**30}
"""Scores up to this size are finite, and differences of 110 between them are not lost by rounding."""
WIDTHS = (2, 4, 6, 8, 10, 12, 16)
THETAS = (10000.0, 3000.0, 1000.0, 100.0, 1e5, 1e6, 30.0, 5.6)
"""The library's own, and others that tell more places apart; the last two read prompts of every length up to 30 and 40
in bfloat16."""
EVERY_LENGTH = 48
"""Up to this context length, a plan makes sure that prompts of every length are read well."""

FARTHEST = 2048
"""Contexts up to this length are worked out, every position against every other."""


@dataclass(frozen=True)
class Turn:
    """How rotary positions turn heads of so many numbers."""

    d_head: int
    theta: float = 10000.0

    @property
    def frequencies(self) -> FloatArray:
        return np.asarray(self.theta ** (-np.arange(0, self.d_head, 2) / self.d_head))


@dataclass(frozen=True)
class Gaze:
    """What the heads of distances 0, 1, ... see at the end of prompts of one length."""

    seen: npt.NDArray[np.int64]
    """The place that each of them sees: a prompt that is too short has it see some other one."""
    gaps: FloatArray
    """How clearly: the lead of its score, 0 where it sees another place than it should."""
    there: npt.NDArray[np.bool_]
    """Whether the prompt is long enough for it."""


@lru_cache(maxsize=4096)
def gaze(length: int, context: int, turn: Turn, dtype: str) -> Gaze:
    """What the heads see in prompts of this length."""
    scores = _scores(length, context, turn, dtype)
    seen = scores.argmax(axis=1)
    wanted = length - 1 - np.arange(context)
    lead = scores.max(axis=1)
    scores[np.arange(context), seen] = -np.inf
    gaps = lead - scores.max(axis=1)
    return Gaze(seen, np.where((seen == wanted) | (wanted < 0), gaps, 0.0), wanted >= 0)


def sharpness(
    lengths: Iterable[int],
    context: int,
    turn: Turn,
    dtype: str,
    *,
    missing: bool = True,
    distances: Sequence[int] | None = None,
) -> float | None:
    """A power of two for the queries that makes every head see one place; None if there is none.

    Heads that look beyond the beginning of a prompt count only with `missing`; `distances` are those of all heads.
    """
    wanted = list(range(context) if distances is None else distances)
    views = [gaze(length, context, turn, dtype) for length in lengths]
    gap = min(float(view.gaps[wanted][view.there[wanted] | missing].min(initial=np.inf)) for view in views)
    if gap <= 0.0:
        return None
    power = 1.0 if math.isinf(gap) else 2.0 ** max(0, math.ceil(math.log2(SATURATED * math.sqrt(turn.d_head) / gap)))
    return power if power * turn.d_head / 2 <= LARGEST[dtype] else None


@lru_cache(maxsize=1024)
def clear_turn(context: int, d_head: int, dtype: str, *, missing: bool) -> Turn | None:
    """A turn for heads of this size that can look at any one place of a context; the library's own, if that will do.

    Contexts that are not too long are to be read well in prompts of every length.
    """
    # A start token makes prompts one longer.
    every = range(1, context + 2) if context <= EVERY_LENGTH else (context,)
    for theta in THETAS:
        turn = Turn(d_head, theta)
        if sharpness(every, context, turn, dtype, missing=missing) is not None:
            return turn
    return None


@lru_cache(maxsize=256)
def narrowest_turns(context: int, dtype: str) -> tuple[Turn, ...]:
    """Turns for the narrowest heads that will do, and for wider ones; empty where there are none, or contexts too long.

    If there are such heads, they see one place each even where the prompt is too short to have the right one.
    """
    if context > FARTHEST:
        return ()
    for missing in (True, False):
        turns = (clear_turn(context, d_head, dtype, missing=missing) for d_head in WIDTHS)
        clear = tuple(turn for turn in turns if turn is not None)
        if clear:
            return clear
    return ()


def rounded(values: FloatArray, dtype: str) -> FloatArray:
    """Numbers in a format of so many bits; the range of the exponent does not matter here."""
    mantissa, exponent = np.frexp(values)
    scale = 2.0 ** SIGNIFICANT[dtype]
    return np.asarray(np.ldexp(np.rint(mantissa * scale) / scale, exponent))


def _scores(length: int, context: int, turn: Turn, dtype: str) -> FloatArray:
    """Scores (context, length) at the end of a prompt."""
    angles = np.arange(length)[:, None] * turn.frequencies
    cos, sin = (rounded(part.astype(np.float32).astype(np.float64), dtype) for part in (np.cos(angles), np.sin(angles)))
    first, second = (rounded(part, dtype) for part in query(context, turn))
    turned = (
        rounded(rounded(first * cos[-1], dtype) - rounded(second * sin[-1], dtype), dtype),
        rounded(rounded(second * cos[-1], dtype) + rounded(first * sin[-1], dtype), dtype),
    )
    return np.asarray(turned[0] @ cos.T + turned[1] @ sin.T)


def query(context: int, turn: Turn) -> tuple[FloatArray, FloatArray]:
    """The two halves of the queries for every distance (context, d_head / 2); the key is 1 and 0."""
    phases = -np.arange(context)[:, None] * turn.frequencies
    return np.cos(phases), np.sin(phases)
