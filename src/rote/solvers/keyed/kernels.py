"""Heads that look where they are told: queries whose scores over distances, through rotary phases, peak as wanted.

A key whose components are 1 on the cosines meets a query (a, b) at distance d with the score sum_f a_f cos(t_f d) -
b_f sin(t_f d). Which weights of at most 1 in all leave the largest gap between the distance wanted and every other one
is a linear programme. Distances are added to it as they turn out to be violated, since few of them matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from rote.errors import UsageError

__all__ = [
    "Query",
    "found_queries",
    "gather_query",
    "plain_part",
    "recency_query",
    "remember_queries",
    "spike_query",
    "start_part",
    "within_query",
]

Floats = np.ndarray[Any, Any]
_MOST = 16.0
_PREFERRED = 20.0
"""How many tokens make up as much as lies between what is within reach and what is not."""
_Ask = TypeVar("_Ask", bound=Callable[..., tuple[Floats, float]])
Query = tuple[str, tuple[int, ...], Floats, float]
"""What was asked for, by name and numbers; the query, and its gap."""
_FOUND: dict[tuple[str, tuple[int, ...], tuple[float, ...], int], tuple[Floats, float]] = {}


def _remembered(ask: _Ask) -> _Ask:
    """A query is found once for a model: a later change of a graft must keep to it, and it takes a second."""

    @wraps(ask)
    def found(*given: Any) -> tuple[Floats, float]:
        *numbers, thetas, length = given
        key = (ask.__name__, tuple(numbers), thetas, length)
        if key not in _FOUND:
            _FOUND[key] = ask(*given)
        return _FOUND[key]

    return found  # type: ignore[return-value]


def found_queries(thetas: tuple[float, ...], length: int) -> list[Query]:
    """All that was asked for so far of a model with these phases and this context."""
    return [(name, numbers, *found) for (name, numbers, *of), found in _FOUND.items() if of == [thetas, length]]


def remember_queries(queries: Iterable[Query], thetas: tuple[float, ...], length: int) -> None:
    """What was found at another time."""
    for name, numbers, query, gap in queries:
        _FOUND[name, tuple(numbers), thetas, length] = query, gap


def plain_part(half: int) -> Floats:
    """The key of a token inside a key: one half of the frequencies."""
    return np.concatenate([(np.arange(half) % 2 == 0).astype(float), np.zeros(half)])


def start_part(half: int) -> Floats:
    """The key of a token at which a key may start: the other half."""
    return np.concatenate([(np.arange(half) % 2 == 1).astype(float), np.zeros(half)])


@_remembered
def gather_query(offset: int, thetas: tuple[float, ...], length: int) -> tuple[Floats, float]:
    """A query that finds the token `offset` back, or the nearest start if that is nearer; and its gap.

    Near the beginning of a text, where neither exists, it finds the first token.
    """
    half = len(thetas)
    even = np.arange(half) % 2 == 0
    waves = _waves(np.array(thetas), np.arange(length))
    plain, start = waves * np.tile(even, 2), waves * np.tile(~even, 2)
    n = 2 * half
    # Unknowns: weights, the largest score of other plain tokens, that of starts farther away.
    ones = np.zeros((length, 2))

    def below(rows: Floats, bound: int) -> Floats:
        limit = ones[: len(rows)].copy()
        limit[:, bound] = 1.0
        return np.hstack([-rows, limit])

    def over(rows: Floats) -> Floats:
        return np.hstack([rows, ones[: len(rows)]])

    def above(row: Floats, bound: int) -> Floats:
        limit = np.zeros((1, 2))
        limit[0, bound] = -1.0
        return np.hstack([row[None], limit])

    gaps = [above(plain[offset], 0), above(plain[offset], 1), above(start[offset], 0), above(start[offset], 1)]
    if offset:
        gaps += [over(start[:offset] - start[1 : offset + 1]), over((start[offset - 1] - plain[offset])[None])]
    if offset > 1:
        gaps.append(over(plain[1:offset] - plain[: offset - 1]))
    other = np.delete(np.arange(length), offset)
    limits = np.vstack([below(plain[other], 0), below(start[offset + 1 :], 1)])
    return _solved(np.vstack(gaps), limits, n, f"a head that looks {offset} tokens back")


@_remembered
def spike_query(offset: int, thetas: tuple[float, ...], length: int) -> tuple[Floats, float]:
    """A query with the score 1 at `offset` and as little as may be elsewhere, for keys of uneven size; and the gap."""
    half = len(thetas)
    waves = _waves(np.array(thetas), np.arange(-offset, length))
    n = 2 * half
    rows = np.delete(waves, offset, 0)
    seeds = np.arange(min(len(rows), 64))

    def solve(chosen: Floats) -> Floats:
        # Scores elsewhere at most s; sum of weights at most _MOST; score 1 at the place itself.
        a = np.hstack([rows[chosen], -rows[chosen], -np.ones((len(chosen), 1))])
        a = np.vstack([a, np.r_[np.ones(2 * n), 0.0]])
        b = np.r_[np.zeros(len(chosen)), _MOST]
        found = _linprog(
            np.r_[np.zeros(2 * n), 1.0], A_ub=a, b_ub=b, A_eq=[np.r_[waves[offset], -waves[offset], 0.0]], b_eq=[1.0],
            bounds=[(0, None)] * (2 * n) + [(None, None)],
        )  # fmt: skip
        weights: Floats = np.r_[found.x[:n] - found.x[n : 2 * n], found.x[-1]]
        return weights

    solution = _cut(solve, lambda x: rows @ x[:n] - x[-1], seeds)
    # The phases put the peak, which stands at zero, at the offset.
    shift = np.array(thetas) * offset
    a, b = solution[:half], solution[half:n]
    return np.r_[a * np.cos(shift) + b * np.sin(shift), b * np.cos(shift) - a * np.sin(shift)], 1.0 - float(
        solution[-1]
    )


@_remembered
def recency_query(thetas: tuple[float, ...], length: int) -> tuple[Floats, float]:
    """A query that prefers the nearer of two marked tokens; its gap between neighbours, at distance 0.

    The gap shrinks with the distance: to a half at 16 tokens, to a fifth at 64.
    """
    half = len(thetas)
    waves = _waves(np.array(thetas), np.arange(length))
    near = min(length - 1, 256)
    steps = waves[:near] - waves[1 : near + 1]
    weights = 1.0 + np.arange(near) / 16.0
    n = 2 * half
    gaps = np.hstack([steps * weights[:, None], np.zeros((near, 2))])
    # All scores within the near field stay positive, so that a marked token is preferred to one that is not.
    base = np.hstack([waves[near : near + 1], np.zeros((1, 2))])
    beyond = np.arange(near + 1, length)
    # They are small at the end of it, since marks of uneven size are told apart by differences only.
    fading = 3.0 * weights[-1] * steps[-1] - waves[near]
    limits = np.vstack([fading[None], waves[near][None] - waves[beyond]])
    limits = np.hstack([limits, np.zeros((len(limits), 2))])
    return _solved(np.vstack([gaps, base]), limits, n, "a head that looks for the latest key")


@_remembered
def within_query(reach: int, thetas: tuple[float, ...], length: int) -> tuple[Floats, float]:
    """A query with positive scores at distances up to `reach` and negative ones from twice that on; and the gap.

    Of two places within reach it prefers the nearer one: a token's distance makes a share of the gap.
    """
    waves = _waves(np.array(thetas), np.arange(length))
    n = waves.shape[1]
    near, far = waves[1 : min(reach, length - 1) + 1], waves[2 * reach + 2 :]
    # The second of the two spare unknowns is the gap itself, so that distances far away can be limits.
    nearer = (waves[: len(near)] - near) * _PREFERRED
    gaps = np.vstack([near, nearer])
    gaps = np.hstack([gaps, np.zeros((len(gaps), 2))])
    gaps = np.vstack([gaps, np.r_[np.zeros(n), 0.0, 1.0]])
    limits = np.hstack([-far, np.zeros((len(far), 1)), -np.ones((len(far), 1))])
    return _solved(gaps, limits, n, f"a head that looks at the last {reach} tokens")


def _waves(thetas: Floats, distances: Floats) -> Floats:
    phases = np.outer(distances, thetas)
    return np.hstack([np.cos(phases), -np.sin(phases)])


def _solved(gaps: Floats, limits: Floats, n: int, what: str) -> tuple[Floats, float]:
    """Weights with sum of sizes 1 that make every row of `gaps` at least g, rows of `limits` at least 0; g largest."""
    extra = gaps.shape[1] - n

    def solve(chosen: Floats) -> Floats:
        a = np.vstack([gaps, limits[chosen]])
        want = np.r_[np.ones(len(gaps)), np.zeros(len(chosen))][:, None]
        a = np.hstack([-a[:, :n], a[:, :n], -a[:, n:], want])
        a = np.vstack([a, np.r_[np.ones(2 * n), np.zeros(extra + 1)]])
        b = np.r_[np.zeros(len(a) - 1), 1.0]
        found = _linprog(
            np.r_[np.zeros(2 * n + extra), -1.0], A_ub=a, b_ub=b,
            bounds=[(0, None)] * (2 * n) + [(None, None)] * (extra + 1),
        )  # fmt: skip
        weights: Floats = np.r_[found.x[:n] - found.x[n : 2 * n], found.x[2 * n :]]
        return weights

    x = _cut(solve, lambda x: -(limits @ x[:-1]), np.arange(min(len(limits), 96)))
    gap = float((gaps @ x[:-1]).min())
    if gap < 1e-3:
        raise UsageError(
            f"the rotary phases of this model leave no room for {what} (gap {gap:.1e}); its heads are too small, take "
            "a model with longer heads."
        )
    return x[:n], gap


def _linprog(*given: Any, **more: Any) -> Any:
    """The solver, which takes a while to import and is not needed where queries are remembered."""
    from scipy.optimize import linprog

    return linprog(*given, **more)


def _cut(solve: Callable[[Floats], Floats], violation: Callable[[Floats], Floats], chosen: Floats) -> Floats:
    """A solution over all limits, found over few of them; those that it violates most join."""
    for _ in range(40):
        x = solve(chosen)
        worse = violation(x)
        bad = np.flatnonzero(worse > 1e-7)
        if not len(bad):
            break
        chosen = np.union1d(chosen, bad[np.argsort(-worse[bad])[:64]])
    return x


def scores(query: Floats, key: Floats, thetas: Sequence[float], distances: Floats) -> Floats:
    """What a query gives to a key at distances; for checks."""
    half = len(thetas)
    phases = np.outer(distances, np.array(thetas))
    a, b, c, d = query[:half], query[half:], key[:half], key[half:]
    given: Floats = np.cos(phases) @ (a * c + b * d) + np.sin(phases) @ (a * d - b * c)
    return given
