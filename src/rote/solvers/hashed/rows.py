"""Rows: a trie over the bits of the keys whose leaves are rows that can be solved."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rote.errors import FactsLost
from rote.solvers.hashed.systems import row_words

if TYPE_CHECKING:
    from rote.solvers.hashed.layout import Layout

__all__ = ["Keys", "Row", "Subtree", "digit_starts", "fewest_rows", "solved_rows", "subtrees"]

IntArray = npt.NDArray[np.int64]
Code = tuple[tuple[int, int], ...]
"""Bits of the key, and the values that they have in this row."""

_PAIRS_TRIED = 12
"""Ways to split that are tried until both halves can be solved."""


@dataclass(frozen=True)
class Keys:
    """Some keys, ready to be shared out."""

    bits: npt.NDArray[np.uint8]
    columns: npt.NDArray[np.int32]
    choices: IntArray
    symbols: IntArray

    def subset(self, index: IntArray) -> Keys:
        return Keys(self.bits[index], self.columns[index], self.choices[index], self.symbols[index])

    def __len__(self) -> int:
        return len(self.symbols)


@dataclass(frozen=True)
class Row:
    """One row of the table: which keys it is for, its words (blocks, w), and where its digits begin."""

    code: Code
    words: IntArray
    thresholds: IntArray
    keys: int


@dataclass(frozen=True)
class Subtree:
    """A part of the keys that is shared out by itself."""

    code: Code
    keys: Keys


def subtrees(keys: Keys, layout: Layout, most: int) -> list[Subtree]:
    """The keys in parts of at most so many, split where they would be split anyway."""
    parts: list[Subtree] = []
    left = [Subtree((), keys)]
    while left:
        part = left.pop()
        if len(part.keys) <= max(most, 2 * layout.capacity):
            parts.append(part)
            continue
        bit = next(iter(_ranked(part.keys, part.code, layout)), None)
        if bit is None:
            raise FactsLost("cannot tell some keys apart by their bits")
        left += reversed(_halves(part, bit))
    return parts


def solved_rows(part: Subtree, layout: Layout, seed: int, most: int) -> list[Row]:
    """The rows of a part, at most so many; FactsLost if there are more."""
    return list(_Trie(layout, seed, most).rows(part))


def fewest_rows(part: Subtree, layout: Layout) -> int:
    """Rows that a part takes at least: as it is split, if every half that is small enough could be solved."""
    capacity, count, left = layout.capacity, 0, [part]
    while left:
        one = left.pop()
        bit = next(iter(_ranked(one.keys, one.code, layout)), None) if len(one.keys) > 2 * capacity else None
        if bit is None:
            count += -(-len(one.keys) // capacity)
        else:
            left += _halves(one, bit)
    return count


def _halves(part: Subtree, bit: int) -> list[Subtree]:
    chosen = part.keys.bits[:, bit] != 0
    return [
        Subtree((*part.code, (bit, value)), part.keys.subset(np.flatnonzero(chosen == bool(value)))) for value in (0, 1)
    ]


def _ranked(keys: Keys, code: Code, layout: Layout) -> Iterator[int]:
    """Bits to split on, best first: as few rows as can be, then as even as can be; columns' bits only at last."""
    used = {bit for bit, _ in code}
    n, capacity = len(keys), layout.capacity
    for bits in (range(layout.row_bits), range(layout.row_bits, layout.row_bits + layout.column_bits)):
        free = [bit for bit in bits if bit not in used]
        if not free:
            continue
        ones = keys.bits[:, free].sum(axis=0, dtype=np.int64).tolist()
        merits = [
            (math.ceil(c / capacity) + math.ceil((n - c) / capacity), max(c, n - c), bit)
            for c, bit in zip(ones, free, strict=True)
            if 0 < c < n
        ]
        yield from (bit for _, _, bit in sorted(merits))


class _Trie:
    def __init__(self, layout: Layout, seed: int, most: int) -> None:
        self._layout, self._seed, self._most = layout, seed, most
        self._count = 0

    def rows(self, part: Subtree) -> Iterator[Row]:
        n, capacity = len(part.keys), self._layout.capacity
        if n <= capacity and (row := self._solved(part)) is not None:
            yield self._counted(row)
            return
        if n == 1:
            raise FactsLost("cannot hold a key by itself; its symbol is longer than the words of a row")
        order = _ranked(part.keys, part.code, self._layout)
        if n > 2 * capacity:
            bit = next(order, None)
            if bit is None:
                raise FactsLost("cannot tell some keys apart by their bits")
            for half in _halves(part, bit):
                yield from self.rows(half)
            return
        best: list[tuple[Subtree, Row | None]] = []
        fewest = 3
        for _, bit in zip(range(_PAIRS_TRIED), order, strict=False):
            first, second = _halves(part, bit)
            row = self._solved(first)
            if row is None and fewest == 1:
                # Whatever the other half is, this is no better.
                continue
            tried = [(first, row), (second, self._solved(second))]
            lost = sum(row is None for _, row in tried)
            if lost < fewest:
                best, fewest = tried, lost
            if not lost:
                break
        if not best:
            raise FactsLost("cannot tell some keys apart by their bits")
        for half, row in best:
            if row is not None:
                yield self._counted(row)
            else:
                yield from self._split(half)

    def _split(self, part: Subtree) -> Iterator[Row]:
        """Rows of a part that is known not to be one row."""
        bit = next(_ranked(part.keys, part.code, self._layout), None)
        if bit is None:
            raise FactsLost("cannot tell some keys apart by their bits")
        for half in _halves(part, bit):
            yield from self.rows(half)

    def _counted(self, row: Row) -> Row:
        self._count += 1
        if self._count > self._most:
            raise FactsLost(f"needs more than {self._most:,} rows")
        return row

    def _solved(self, part: Subtree) -> Row | None:
        layout, keys = self._layout, part.keys
        thresholds = digit_starts(keys.choices, layout)
        digits = np.searchsorted(thresholds, keys.choices, side="right")
        if np.bincount(digits, minlength=1).max() > layout.width - len(layout.groups) + 1:
            return None
        path = [2 * bit + value for bit, value in part.code]
        rng = np.random.default_rng([self._seed, len(path), *path])
        most = [[1 << layout.used_bits(block)] for block in range(layout.blocks)]
        start = rng.integers(0, most, (layout.blocks, layout.width))
        words = row_words(keys.columns.astype(np.int64), digits, keys.symbols, layout.segments, start)
        return None if words is None else Row(part.code, words, thresholds, len(keys))


def digit_starts(choices: IntArray, layout: Layout) -> IntArray:
    """Where each digit but the first begins, among the choices: stored, so that all digits are used alike, or fixed."""
    whole, count = 1 << layout.choice_bits, layout.digits
    if count == 1:
        return np.zeros(0, dtype=np.int64)
    if not layout.thresholds:
        return np.array([-(-j * whole // count) for j in range(1, count)])
    below = np.concatenate([[0], np.cumsum(np.bincount(choices, minlength=whole))])
    wanted = np.arange(1, count) * len(choices) / count
    return np.asarray(np.abs(below[None, :] - wanted[:, None]).argmin(axis=1), dtype=np.int64)
