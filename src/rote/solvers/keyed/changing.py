"""A store with other keys in it: only the groups that they fall into are solved again, all others stay as they are.

Groups are leaves of a trie over signs, so every window falls into exactly one of them, stored or not. A group that gets
too full is parted in two, of which one takes its place and the other comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rote.errors import CapacityError
from rote.solvers.keyed.store import CHECK, FILL, Store, Way, maps_onto, parted

__all__ = ["Stored", "changed_store", "groups_of"]

_DRAWS = 40
_FAR = 0.75
"""How far from its level a check of a forgotten key must be: twice of what is accepted."""
_EMPTY = 0.4
"""The same in a group that has no keys, where nothing is written at all."""


@dataclass(frozen=True)
class Stored:
    """Windows of a store: their signs, their last tokens, and the levels that they lead to."""

    signs: np.ndarray
    kinds: np.ndarray
    levels: np.ndarray
    own: Callable[[np.ndarray], np.ndarray]
    """The vectors of tokens."""


def groups_of(store: Store, signs: np.ndarray) -> np.ndarray:
    """The group of every window."""
    each = len(store.gates) // len(store.ways)
    opened = np.hstack([signs, np.ones((len(signs), 1))]) @ store.gates[::each].T
    found: np.ndarray = opened.argmax(1)
    return found


def changed_store(
    store: Store,
    stored: Stored,
    touched: np.ndarray,
    forgotten: Stored,
    *,
    own_signs: int,
    checks: int,
    rng: np.random.Generator,
) -> tuple[Store, list[int]]:
    """A store of the windows `stored`, of which those with numbers `touched` are new or have other levels.

    Windows that are `forgotten` miss a check for certain. The numbers of the groups that were solved again are
    returned; all neurons of others are as they were.
    """
    each = len(store.gates) // len(store.ways)
    width = stored.signs.shape[1]
    group, left = groups_of(store, stored.signs), groups_of(store, forgotten.signs)
    gates, maps = store.gates.copy(), store.maps.copy()
    ways = list(store.ways)
    solved: list[int] = []
    waiting: list[tuple[np.ndarray, Way, int | None]] = [
        (np.flatnonzero(group == g), ways[g], int(g)) for g in sorted({*group[touched].tolist(), *left.tolist()})
    ]
    while waiting:
        rows, way, place = waiting.pop()
        gate = way.gate(width)
        out = np.flatnonzero(_opened(forgotten.signs, gate) > 0)
        solution = _solved(stored, rows, forgotten, out, gate, checks, rng)
        if solution is None:
            one, two = parted(rows, way, stored.signs, own_signs, max(1.0, len(rows) / 2))
            waiting += [(*one, place), (*two, None)]
            continue
        if place is None:
            place = len(ways)
            ways.append(way)
            gates, maps = (np.vstack([array, array[:each]]) for array in (gates, maps))
        ways[place] = way
        here = slice(place * each, (place + 1) * each)
        gates[here], maps[here] = gate, solution.T
        solved.append(place)
    coordinates = np.tile(store.coordinates[:each], len(ways))
    gates, maps = (array.astype(np.float32).astype(np.float64) for array in (gates, maps))
    return Store(gates, maps, coordinates, tuple(ways)), sorted(solved)


def _opened(signs: np.ndarray, gate: np.ndarray) -> np.ndarray:
    opened: np.ndarray = signs @ gate[:-1] + gate[-1]
    return opened


def _solved(
    stored: Stored, rows: np.ndarray, forgotten: Stored, out: Sequence[int] | np.ndarray, gate: np.ndarray,
    checks: int, rng: np.random.Generator,
) -> np.ndarray | None:  # fmt: skip
    """Maps for the windows of a group, none of which takes a forgotten one to a check; None if there are none."""
    width = stored.signs.shape[1]
    coordinates = stored.levels.shape[1]
    own = stored.own(stored.kinds[rows])
    room = width + 1 + min(own.shape[1], len(np.unique(stored.kinds[rows])))
    if len(rows) > FILL * room:
        return None

    def inputs(of: Stored, which: Sequence[int] | np.ndarray, vectors: np.ndarray) -> np.ndarray:
        given = np.hstack([of.signs[which], np.ones((len(which), 1)), vectors])
        scaled: np.ndarray = given * _opened(of.signs[which], gate)[:, None]
        return scaled

    here = inputs(stored, rows, own)
    lost = inputs(forgotten, out, forgotten.own(forgotten.kinds[out]))
    for _ in range(_DRAWS):
        if len(rows):
            solution = maps_onto(here, stored.levels[rows], width + 1, checks, rng)
        else:
            solution = np.zeros((here.shape[1], coordinates + checks))
        if solution is None:
            return None
        # One check that a window misses is enough; where it meets all by chance, another draw is made.
        apart = np.abs(lost @ solution[:, coordinates:] - CHECK)
        if bool((apart > (_FAR if len(rows) else _EMPTY)).any(1).all()):
            return solution
    raise CapacityError(
        "the forgotten key cannot be told from those that are left in its group; graft the original again without it."
    )
