"""Masks of keys, and tables whose masked parities are the labels.

A table of `rows` bits answers for a run of keys: the label of a key is the parity of the table's bits under the key's
mask. Every point of a run is one linear equation over GF(2), so a run lasts until an equation contradicts the others,
which happens at about as many points as the table has rows: no bit of the table is wasted, and no key is stored.
A run has at least one point, whatever the masks are (row 0 is under every mask), so a plan always exists; only its
size depends on how well the masks scatter.

The masks come from tent maps, which is what a ReLU network computes cheaply. In integers, the tent map takes X in
[0, 2^f] to min(X, 2^f - X) in [0, 2^(f-1)], and the mask bit of the step is [X <= 2^(f-1)]. When `start` bits are
left, the state is multiplied by an odd constant, which costs no weight, and the orbit goes on. Neighbours differ in
their low bits only, so before the first mask bit the key is folded to few bits, and mixed by one short multiplication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from rote.data._arrays import IntArray

__all__ = ["Frame", "Orbit", "Run", "equations", "frame", "orbits", "plan_runs"]

_WORD: Final = 64


@dataclass(frozen=True)
class Frame:
    """The keys of a data set, seen as (key - low) / 2^shift: integers below 2^bits."""

    low: int
    shift: int
    bits: int

    def inside(self, keys: IntArray) -> IntArray:
        """Keys of the data set in this frame."""
        return (keys - self.low) >> self.shift


def frame(keys: IntArray) -> Frame:
    """Drop the common offset where that makes the keys shorter, and the factors of two that all keys share."""
    low, high = int(keys.min()), int(keys.max())
    spread = int(np.bitwise_or.reduce(keys - low))
    if (spread & -spread) > 1 or (high - low).bit_length() + 2 < high.bit_length():
        shift = max(0, (spread & -spread).bit_length() - 1)
    else:
        low, shift = 0, 0
    return Frame(low, shift, max(1, ((high - low) >> shift).bit_length()))


@dataclass(frozen=True)
class Orbit:
    """How masks are drawn from keys below 2^key_bits, in numbers of at most `width` bits.

    Long keys are first folded to `state` bits, then multiplied by a number of `warm` bits and folded back to as many
    bits as before. Orbits of different stages start from the same folded key with different multipliers.
    """

    key_bits: int
    width: int
    state: int
    warm: int

    @property
    def folds(self) -> list[tuple[int, int]]:
        """The tent maps before the first mask bit: what to multiply with, and the number f of bits before the map."""
        first = [(1, f) for f in range(self.key_bits, self.start, -1)]
        mix = self._odd(0, self.warm) if self.warm else 1
        return first + [(mix if i == 0 else 1, self.start + self.warm - i) for i in range(self.warm)]

    @property
    def start(self) -> int:
        """Bits of the folded key, and of the state before every multiplication."""
        return min(self.key_bits, self.state)

    @property
    def period(self) -> int:
        """Mask bits between two multiplications."""
        return self.width - self.start

    def multiplier(self, stage: int, turn: int) -> int:
        """An odd number of exactly `period` bits."""
        return self._odd(1 + turn + (stage << 20), self.period)

    @staticmethod
    def _odd(index: int, bits: int) -> int:
        z = (0x9E3779B97F4A7C15 * (1 + index)) % (1 << _WORD)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = ((z ^ (z >> shift)) * factor) % (1 << _WORD)
        z ^= z >> 31
        return (z >> (_WORD - bits)) | 1 | (1 << (bits - 1))

    def folded(self, keys: IntArray) -> IntArray:
        """The keys before the first mask bit."""
        state = keys
        for factor, f in self.folds:
            state = state * factor
            state = np.minimum(state, (1 << f) - state)
        return state

    def masks(self, folded: IntArray, stage: int, count: int) -> list[npt.NDArray[np.bool_]]:
        """The first `count` mask bits of every key."""
        out: list[npt.NDArray[np.bool_]] = []
        state = folded
        for step in range(count):
            turn, phase = divmod(step, self.period)
            if phase == 0:
                state = state * self.multiplier(stage, turn)
            f = self.width - phase
            out.append(state <= 1 << (f - 1))
            state = np.minimum(state, (1 << f) - state)
        return out


def orbits(keys: IntArray, key_bits: int, width: int, rows: int) -> list[Orbit]:
    """Ways to draw masks that are worth a look: folded to about the span of `rows` keys, and mixed more or less."""
    if rows == 1:
        return [Orbit(key_bits, width, key_bits, 0)]
    spans = keys[rows::rows] - keys[:-rows:rows] if len(keys) > rows else keys[-1:] - keys[:1]
    span = max(2, int(np.median(spans)).bit_length())
    states = sorted({min(key_bits, 2 * width // 3, max(1, span + more)) for more in (-2, 0, 1, 3, 6)})
    return [
        Orbit(key_bits, width, state, warm) for state in states for warm in (0, 3, 6, 9, 13) if state + warm <= width
    ]


def equations(orbit: Orbit, keys: IntArray, labels: IntArray, rows: int, stages: int, n_bits: int) -> list[int]:
    """Per point: its mask (bit stage * rows + row; row 0 of stage 0 is always there), and its label above the mask.

    The network counts the rows that do not contribute, so an odd number of rows turns every label bit around.
    """
    folded = orbit.folded(keys)
    total = rows * stages
    words = [np.zeros(len(keys), dtype=np.uint64) for _ in range(-(-total // _WORD))]
    words[0] |= np.uint64(1)
    for stage in range(stages):
        first = 1 if stage == 0 else 0
        for row, mask in enumerate(orbit.masks(folded, stage, rows - first), start=stage * rows + first):
            words[row // _WORD] |= mask.astype(np.uint64) << np.uint64(row % _WORD)
    targets = labels ^ ((1 << n_bits) - 1) if total % 2 else labels
    parts = [word.tolist() for word in words]
    out = [mask | target << total for mask, target in zip(parts[0], targets.tolist(), strict=True)]
    for place, part in enumerate(parts[1:], start=1):
        out = [row | word << (place * _WORD) for row, word in zip(out, part, strict=True)]
    return out


@dataclass(frozen=True)
class Run:
    """Points start .. end - 1 (in order of the keys); bit i of columns[j] is row i of the table of label bit j."""

    start: int
    end: int
    columns: tuple[int, ...]


def plan_runs(points: Sequence[int], rows: int, n_bits: int, cuts: IntArray | None = None) -> list[Run] | None:
    """Cut the points greedily into runs with a table each.

    `cuts[i]` is the last place <= i at which a run may start (0 <= i <= len(points)). None if a run finds no place.
    """
    runs: list[Run] = []
    low = (1 << rows) - 1
    n, start = len(points), 0
    while start < n:
        basis = [0] * rows
        born = [0] * rows
        at = start
        while at < n:
            rest = points[at]
            left = rest & low
            while left:
                pivot = left.bit_length() - 1
                if not basis[pivot]:
                    basis[pivot], born[pivot] = rest, at
                    break
                rest ^= basis[pivot]
                left = rest & low
            else:
                if rest:
                    break
            at += 1
        end = at if cuts is None else int(cuts[at])
        if end <= start:
            return None
        kept = [(p, row) for p, row in enumerate(basis) if row and born[p] < end]
        runs.append(Run(start, end, _solution(kept, rows, n_bits)))
        start = end
    return runs


def _solution(echelon: list[tuple[int, int]], rows: int, n_bits: int) -> tuple[int, ...]:
    """A table that fulfils equations in echelon form (pivots are highest bits); rows that are free are 0."""
    columns = []
    for bit in range(rows, rows + n_bits):
        column = 0
        for pivot, row in echelon:
            column |= (((row >> bit) ^ (row & column).bit_count()) & 1) << pivot
        columns.append(column)
    return tuple(columns)
