"""Answers behind keys: neurons with gates open on a few dozen keys, and linear maps of the keys' signs behind them.

Keys are dealt out to groups by a trie over their signs; a group's gate adds up the signs that lead to it, so it is one
whole sign above the bar or at least one below. Behind the gate, a map of least norm takes the signs of each key to the
levels of its answer's code. Further maps take every key of the group to one and the same level: a key that is not
stored lands elsewhere, and is told by that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rote.errors import DataError

__all__ = ["CHECK", "LEVELS", "Store", "fit_store", "levels_of", "turns"]

Floats = np.ndarray
Ints = np.ndarray

LEVELS = 4
CHECK = 0.5
"""Where checks lead every stored key."""
_FILL = 0.72
_SPREAD = 12.0
"""How far from it an unknown key lands, about."""
_LARGEST = 18.0
"""The largest norm of a map: it multiplies what rounding does to the signs."""


@dataclass(frozen=True)
class Store:
    """Gates (neurons x signs and a constant), maps (signs, a constant, a token's own vector), coordinates written."""

    gates: Floats
    maps: Floats
    coordinates: Ints

    def __call__(self, signs: Floats, own: Floats) -> Floats:
        """What is written for each row of signs, and of the vectors of the tokens at hand."""
        inputs = np.hstack([signs, np.ones((len(signs), 1))])
        opened = np.maximum(inputs @ self.gates.T, 0.0) * (np.hstack([inputs, own]) @ self.maps.T)
        written = np.zeros((len(signs), int(self.coordinates.max()) + 1))
        for c in range(written.shape[1]):
            written[:, c] = opened[:, self.coordinates == c].sum(1)
        return written


def levels_of(numbers: Ints, coordinates: int) -> Floats:
    """The code of an answer's number: digits in base `LEVELS`, as levels a whole apart around zero."""
    digits = np.stack([numbers // LEVELS**c % LEVELS for c in range(coordinates)], 1)
    return digits - (LEVELS - 1) / 2


def turns(bit: int) -> list[tuple[float, float]]:
    """Where a bit of a digit turns along its level: places, and the sign that it has beyond."""
    values = [1.0 if d >> bit & 1 else -1.0 for d in range(LEVELS)]
    return [(d - LEVELS / 2, values[d]) for d in range(1, LEVELS) if values[d] != values[d - 1]]


def fit_store(
    signs: Floats,
    own: Floats,
    kinds: Ints,
    numbers: Ints,
    *,
    own_signs: int,
    coordinates: int,
    checks: int,
    rng: np.random.Generator,
) -> Store:
    """A store of keys: rows of signs, each with the vector of its last token, that token, and its answer's number.

    The first `own_signs` are those of the last token.
    """
    n, width = signs.shape
    if len(np.unique(signs, axis=0)) < n:
        raise DataError("two keys have the same signs; choose another seed.")
    inputs = np.hstack([signs, np.ones((n, 1)), own])
    levels = levels_of(numbers, coordinates)
    gates: list[Floats] = []
    maps: list[Floats] = []
    waiting: list[tuple[Ints, dict[int, float]]] = [(np.arange(n), {})]
    while waiting:
        rows, path = waiting.pop()
        room = _FILL * (width + 1 + min(own.shape[1], len(np.unique(kinds[rows]))))
        solution = _maps(inputs[rows], levels[rows], width + 1, checks, rng) if len(rows) <= room else None
        if solution is None:
            waiting += _split(rows, path, signs, own_signs, room)
            continue
        gate = np.zeros(width + 1)
        gate[list(path)] = list(path.values())
        gate[-1] = 1.0 - len(path)
        gates.extend([gate] * (coordinates + checks))
        maps.extend(solution.T)
    count = len(gates) // (coordinates + checks)
    return Store(np.array(gates), np.array(maps), np.tile(np.arange(coordinates + checks), count))


def _split(
    rows: Ints, path: dict[int, float], signs: Floats, own: int, room: float
) -> list[tuple[Ints, dict[int, float]]]:
    """Two parts by the sign that leaves the fewest groups, and of those the most even one."""
    plus = (signs[rows] > 0).sum(0)
    minus = len(rows) - plus
    most = max(1.0, min(room, len(rows) - 1))
    cost = np.ceil(plus / most) + np.ceil(minus / most) + np.abs(plus - minus) / (len(rows) + 1)
    # Signs of the last token come last: the more of those tokens in a group, the more keys it can tell apart.
    cost[:own] += len(rows)
    cost[(plus == 0) | (minus == 0)] = np.inf
    split = int(cost.argmin())
    halves = [(rows[signs[rows, split] == sign], {**path, split: sign}) for sign in (1.0, -1.0)]
    return [half for half in halves if len(half[0])]


def _maps(inputs: Floats, levels: Floats, signs: int, checks: int, rng: np.random.Generator) -> Floats | None:
    """Maps onto levels and checks, or None if the rows depend on each other or need large weights."""
    # Every map has a random part on the signs, which spreads unknown keys.
    random = np.zeros((inputs.shape[1], levels.shape[1] + checks))
    random[:signs] = rng.standard_normal((signs, random.shape[1])) * (_SPREAD / np.sqrt(signs))
    random[:, : levels.shape[1]] *= 0.1
    targets = np.hstack([levels, np.full((len(inputs), checks), CHECK)]) - inputs @ random
    gram = inputs @ inputs.T
    try:
        solution: Floats = random + inputs.T @ np.linalg.solve(gram, targets)
    except np.linalg.LinAlgError:
        return None
    exact = np.abs(inputs @ (solution - random) - targets).max() < 1e-6
    return solution if exact and float(np.linalg.norm(solution, axis=0).max()) < _LARGEST else None
