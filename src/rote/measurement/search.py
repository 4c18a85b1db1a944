"""Bracketing and bisection for the largest count that succeeds, for several seeds in step with each other.

Each seed has its own bracket. In a round every unfinished seed asks one question, and all are answered together, as
one stack. Success is taken to be monotone in the count, which for trained models is true up to luck.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Bracket", "largest"]

_GROWTH = 1.5


@dataclass
class Bracket:
    """The largest count that succeeded and the smallest that failed."""

    low: int = 0
    high: int | None = None
    tries: int = 0

    def narrow(self, tolerance: float) -> bool:
        return self.high is not None and self.high - self.low <= max(1, int(tolerance * self.low))

    def question(self, start: int, most: int) -> int:
        """What to try next."""
        if self.high is None:
            return min(most, max(start if self.low == 0 else int(_GROWTH * self.low), self.low + 1))
        if self.low == 0:
            return max(1, int(self.high / _GROWTH)) if self.high > 2 else 1
        return (self.low + self.high) // 2


def largest(
    seeds: Sequence[int],
    ask: Callable[[Mapping[int, int]], Mapping[int, bool]],
    *,
    start: int,
    most: int,
    tolerance: float,
) -> dict[int, Bracket]:
    """A bracket for each seed; `ask` gets counts by seed and says which succeed. `high` is most + 1 if all fits."""
    brackets = {seed: Bracket() for seed in seeds}
    start = max(1, min(start, most))
    while True:
        open_ = {
            seed: bracket
            for seed, bracket in brackets.items()
            if not bracket.narrow(tolerance) and not (bracket.high is None and bracket.low >= most)
        }
        if not open_:
            break
        counts = {seed: bracket.question(start, most) for seed, bracket in open_.items()}
        for seed, good in ask(counts).items():
            bracket = brackets[seed]
            bracket.tries += 1
            if good:
                bracket.low = max(bracket.low, counts[seed])
            else:
                bracket.high = counts[seed] if bracket.high is None else min(bracket.high, counts[seed])
    for bracket in brackets.values():
        if bracket.high is None:
            bracket.high = most + 1
    return brackets
