"""Answers behind keys: neurons with gates open on a few dozen keys, and linear maps of the keys' signs behind them.

Keys are dealt out to groups by a trie over their signs, in which one branching may be by a pair of signs, of which one
must be right; a group's gate adds up the signs that lead to it, so it is above the bar on the group alone. Behind the
gate, a map of least norm takes the signs of each key to the levels of its answer's code. Further maps take every key of
the group to one and the same level: a key that is not stored lands elsewhere, and is told by that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from rote.errors import DataError

__all__ = [
    "CHECK",
    "FILL",
    "Store",
    "Way",
    "coordinates_for",
    "digit_of",
    "fit_store",
    "levels_of",
    "maps_onto",
    "parted",
    "turns",
    "usual_room",
]

Floats = np.ndarray
Ints = np.ndarray

CHECK = 0.5
"""Where checks lead every stored key."""
_WEIGHT, _EITHER = 1.0, 0.75
"""Of signs on the way to a group, and of two of which one must be right: exact in 16 bits."""
FILL = 0.85
"""How full groups may get, as a share of the numbers that tell keys apart in them: what is left is for strangers."""
_FILLS = (0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8)
_SHARES = (1.0, 0.85, 0.7)
"""How full they are tried to be, and for what share of that keys are parted: which needs the fewest is chance."""
_FEW = 8.0
"""Pairs of signs are tried where so many groups or fewer are left."""
_SPREAD = 32.0
"""How far from it an unknown key lands, about: as far as what rounding adds in bfloat16 is far less than a level."""
_STRAY = 5.0
"""How far from its level."""
_DRAWS = 8
"""How often a map is drawn."""
_LARGEST = 2.0
"""How much larger than its random part a map may be: its norm multiplies what rounding does to the signs."""


@dataclass(frozen=True)
class Store:
    """Gates (neurons x signs and a constant), maps (signs, a constant, a token's own vector), coordinates written."""

    gates: Floats
    maps: Floats
    coordinates: Ints
    ways: tuple[Way, ...] = ()
    """Which signs lead to each group; its neurons follow one another, and there are as many in every group."""

    def __call__(self, signs: Floats, own: Floats) -> Floats:
        """What is written for each row of signs, and of the vectors of the tokens at hand."""
        inputs = np.hstack([signs, np.ones((len(signs), 1))])
        opened = np.maximum(inputs @ self.gates.T, 0.0) * (np.hstack([inputs, own]) @ self.maps.T)
        written = np.zeros((len(signs), int(self.coordinates.max()) + 1))
        for c in range(written.shape[1]):
            written[:, c] = opened[:, self.coordinates == c].sum(1)
        return written


def levels_of(numbers: Ints, bits: int, depth: int) -> Floats:
    """The code of an answer's number of so many bits: digits of `depth` bits, as levels a whole apart around zero.

    Levels beside each other have digits that differ in one bit, so that bits turn seldom along them.
    """
    count = 1 << depth
    place = np.argsort([digit_of(level) for level in range(count)])
    digits = np.stack([numbers // count**c % count for c in range(coordinates_for(bits, depth))], 1)
    levels: Floats = place[digits] - (count - 1) / 2
    return levels


def digit_of(level: int) -> int:
    """The digit of a level, counted from the lowest one on."""
    return level ^ level >> 1


def coordinates_for(bits: int, depth: int) -> int:
    """Digits of `depth` bits that hold so many bits."""
    return -(-bits // depth)


def turns(bit: int, depth: int) -> list[tuple[float, float]]:
    """Where a bit of a digit of `depth` bits turns along its level: places, and the sign that it has beyond."""
    count = 1 << depth
    values = [1.0 if digit_of(d) >> bit & 1 else -1.0 for d in range(count)]
    return [(d - count / 2, values[d]) for d in range(1, count) if values[d] != values[d - 1]]


def fit_store(
    signs: Floats,
    own: Floats,
    kinds: Ints,
    levels: Floats,
    *,
    own_signs: int,
    checks: int,
    rng: np.random.Generator,
    layer: int = 0,
    spare: int = 0,
) -> Store:
    """A store of keys: rows of signs, each with the vector of its last token, that token, and its answers' levels.

    The first `own_signs` are those of the last token. Groups are as empty as may be without one more `layer` of so many
    neurons, since full ones tell strangers less well; so many neurons in all are to `spare`.
    """
    if len(np.unique(signs, axis=0)) < len(signs):
        raise DataError("two keys have the same signs; choose another seed.")
    seed = int(rng.integers(1 << 32))

    def fitted(fill: float, share: float, most: float) -> Store | None:
        draw = np.random.default_rng(seed)
        return _filled(signs, own, kinds, levels, own_signs, checks, draw, fill, share, most)

    full: Store | None = None
    for share in _SHARES:
        full = fitted(FILL, share, np.inf if full is None else len(full.gates) - 1) or full
    assert full is not None, "there is no limit"
    room = layer * -(-(len(full.gates) + spare) // layer) - spare if layer else 0
    tries = ((fill, share) for fill in _FILLS for share in _SHARES)
    return next((found for fill, share in tries if (found := fitted(fill, share, room)) is not None), full)


def _filled(
    signs: Floats,
    own: Floats,
    kinds: Ints,
    levels: Floats,
    own_signs: int,
    checks: int,
    rng: np.random.Generator,
    fill: float,
    share: float,
    most: float,
) -> Store | None:
    """A store with groups that are filled so far, or None if it takes more than `most` neurons.

    Keys are parted for groups of a `share` of what the usual one takes.
    """
    n, width = signs.shape
    inputs = np.hstack([signs, np.ones((n, 1)), own])
    coordinates = levels.shape[1]
    usual = share * usual_room(kinds, width + 1, own.shape[1], rng, fill)
    gates: list[Floats] = []
    maps: list[Floats] = []
    ways: list[Way] = []
    waiting: list[tuple[Ints, Way]] = [(np.arange(n), Way())]
    while waiting:
        if (len(ways) + len(waiting)) * (coordinates + checks) > most:
            return None
        rows, path = waiting.pop()
        solution = None
        if len(rows) <= fill * (width + 1 + min(own.shape[1], len(np.unique(kinds[rows])))):
            gate = path.gate(width)
            opened = inputs[rows, : width + 1] @ gate
            solution = maps_onto(inputs[rows] * opened[:, None], levels[rows], width + 1, checks, rng)
        if solution is None:
            waiting += parted(rows, path, signs, own_signs, min(usual, len(rows) - 1))
            continue
        gates.extend([gate] * (coordinates + checks))
        maps.extend(solution.T)
        ways.append(path)
    count = len(gates) // (coordinates + checks)
    return Store(np.array(gates), np.array(maps), np.tile(np.arange(coordinates + checks), count), tuple(ways))


@dataclass(frozen=True)
class Way:
    """Signs that all must be so, and at most one pair of which one must be."""

    every: dict[int, float] = field(default_factory=dict)
    either: dict[int, float] = field(default_factory=dict)

    def gate(self, width: int) -> Floats:
        """Weights that add up to 1 on the path (2.5 where both of the pair are right) and to -0.5 at most elsewhere."""
        gate = np.zeros(width + 1)
        each = _WEIGHT if not self.either else 2 * _EITHER
        for sign, value in self.every.items():
            gate[sign] += each * value
        for sign, value in self.either.items():
            gate[sign] += _EITHER * value
        gate[-1] = 1.0 - each * len(self.every)
        return gate


def usual_room(kinds: Ints, fixed: int, most: int, rng: np.random.Generator, fill: float) -> float:
    """How many keys a group takes that is drawn at random: the more last tokens there are, the more."""
    order = rng.permutation(len(kinds))
    room = 1.0
    for size in range(2, len(kinds) + 1, 2):
        if size > fill * (fixed + min(most, len(np.unique(kinds[order[:size]])))):
            break
        room = float(size)
    return room


def parted(rows: Ints, path: Way, signs: Floats, own: int, room: float) -> list[tuple[Ints, Way]]:
    """Two parts that need the fewest groups, the fullest of which is as empty as may be.

    By one sign; or, where no pair is on the path yet, those with a pair of signs, and those without.
    """
    positive = signs[rows] > 0
    used = {*path.every, *path.either}
    free = np.array([k for k in range(signs.shape[1]) if k not in used])
    counts = positive[:, free].sum(0)
    one = [(int(c), {int(k): 1.0}) for k, c in zip(free, counts, strict=True)]
    if not path.either and len(rows) <= _FEW * room:
        table = positive[:, free].astype(np.int64)
        both = table.T @ table
        n = len(rows)
        quarters = {
            (1.0, 1.0): both,
            (1.0, -1.0): counts[:, None] - both,
            (-1.0, 1.0): counts[None] - both,
            (-1.0, -1.0): n - counts[:, None] - counts[None] + both,
        }
        for (a, b), found in quarters.items():
            for i, j in zip(*np.nonzero(np.triu(_cost(found, n, room) < 1 + _least(counts, n, room), 1)), strict=True):
                one.append((int(found[i, j]), {int(free[i]): a, int(free[j]): b}))
    sizes = np.array([size for size, _ in one])
    cost = _cost(sizes, len(rows), room)
    # Signs of the last token come last: the more of those tokens in a group, the more keys it can tell apart.
    cost += np.array([len(rows) * any(k < own for k in which) for _, which in one])
    which = one[int(cost.argmin())][1]
    inside = np.all([signs[rows, k] == value for k, value in which.items()], axis=0)
    opposite = {k: -value for k, value in which.items()}
    with_them = Way({**path.every, **which}, path.either)
    without = Way(path.every, opposite) if len(which) > 1 else Way({**path.every, **opposite}, path.either)
    return [(rows[inside], with_them), (rows[~inside], without)]


def _cost(sizes: Ints, n: int, room: float) -> Floats:
    """Groups that both parts need, and how full they are then."""
    groups = [np.ceil(part / room) for part in (sizes, n - sizes)]
    full = np.maximum(sizes / np.maximum(groups[0], 1), (n - sizes) / np.maximum(groups[1], 1)) / room
    return np.where((sizes == 0) | (sizes == n), np.inf, groups[0] + groups[1] + full)


def _least(sizes: Ints, n: int, room: float) -> float:
    return float(np.floor(_cost(sizes, n, room).min()))


def maps_onto(inputs: Floats, levels: Floats, signs: int, checks: int, rng: np.random.Generator) -> Floats | None:
    """Maps onto levels and checks, or None if the rows depend on each other or need large weights.

    Each is drawn some times, and the one taken that bfloat16 rounds least far from where it leads.
    """
    # Every map has a random part on the signs, which spreads unknown keys.
    count = levels.shape[1] + checks
    far = np.r_[np.full(levels.shape[1], _STRAY), np.full(checks, _SPREAD)]
    random = np.zeros((inputs.shape[1], _DRAWS, count))
    random[:signs] = rng.standard_normal((signs, _DRAWS, count)) * (far / np.sqrt(signs))
    random = random.reshape(inputs.shape[1], -1)
    wanted = np.tile(np.hstack([levels, np.full((len(inputs), checks), CHECK)]), _DRAWS)
    targets = wanted - inputs @ random
    try:
        maps = random + inputs.T @ np.linalg.solve(inputs @ inputs.T, targets)
    except np.linalg.LinAlgError:
        return None
    if not np.abs(inputs @ maps - wanted).max() < 1e-6:
        return None
    short = torch.tensor(maps).to(torch.bfloat16).double().numpy()
    off = np.abs(inputs @ (short - maps)).max(0).reshape(_DRAWS, count)
    solution: Floats = maps.reshape(-1, _DRAWS, count)[:, off.argmin(0), np.arange(count)]
    return solution if np.linalg.norm(solution, axis=0).max() < _LARGEST * far.max() else None
