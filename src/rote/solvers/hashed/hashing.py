"""Codes of tokens, and the bits of a key that rows, columns, digits and fingerprints go by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rote.solvers.hashed.layout import MIXES

if TYPE_CHECKING:
    from rote.solvers.hashed.layout import Layout

__all__ = ["Hash", "HashedKeys", "drawn_hash", "hashed_keys", "own_order", "positions_to_read"]

IntArray = npt.NDArray[np.int64]
BitArray = npt.NDArray[np.uint8]

_SAMPLE = 24
"""Positions that are tried at every step of the choice which ones to read."""
_TRIES = 200


@dataclass(frozen=True)
class Hash:
    """Which bits of which tokens every hash bit reads.

    `positions` are the positions of a context that are read, `codes` (V, D) the bits of every token, and `copied`
    (positions, n) those of its bits that the head of a position copies. A hash bit reads inputs s n + j, the j-th of
    the bits that head s copies: `reads` has one row per bit, in the order row bits, column bits, choice bits.
    Fingerprint bits are parities over all positions: `checks`.
    """

    layout: Layout
    positions: IntArray
    codes: BitArray
    copied: IntArray
    reads: IntArray
    checks: IntArray


@dataclass(frozen=True)
class HashedKeys:
    """What the network finds out about every key before it looks anything up."""

    bits: BitArray
    """(N, m): row bits, column bits, choice bits."""
    fingerprints: IntArray

    def columns(self, layout: Layout) -> npt.NDArray[np.int32]:
        """The word that every key reads in every group (N, a)."""
        chosen, start, first = [], layout.row_bits, 0
        for words, size in zip(layout.groups, layout.group_bits, strict=True):
            number = _numbers(self.bits[:, start : start + size])
            single = 2 * words - (1 << size)
            chosen.append(np.where(number < single, number, single + (number - single >> 1)) + first)
            start, first = start + size, first + words
        return np.stack(chosen, axis=1).astype(np.int32)

    def choices(self, layout: Layout) -> IntArray:
        """The number by which the digit of every key is told."""
        return _numbers(self.bits[:, layout.row_bits + layout.column_bits :])


def _numbers(bits: BitArray) -> IntArray:
    """Whole numbers of their bits, low bits first."""
    total = np.zeros(len(bits), dtype=np.int64)
    for i in range(bits.shape[1]):
        total |= bits[:, i].astype(np.int64) << i
    return total


def positions_to_read(contexts: IntArray, count: int, rng: np.random.Generator) -> IntArray | None:
    """So many positions of the contexts that tell them all apart; None if none were found.

    Positions are chosen one by one, each time the one of a sample that tells most contexts apart.
    """
    n, length = contexts.shape
    if count >= length:
        return np.arange(length)
    chosen: list[int] = []
    groups, distinct = np.zeros(n, dtype=np.int64), 1
    while len(chosen) < count:
        left = np.setdiff1d(np.arange(length), chosen)
        tried = rng.permutation(left)[:_SAMPLE]
        if distinct == n:
            chosen.append(int(tried[0]))
            continue
        best = (0, -1, groups)
        for position in tried.tolist():
            pairs = groups * (int(contexts[:, position].max()) + 1) + contexts[:, position]
            values, finer = np.unique(pairs, return_inverse=True)
            if len(values) > best[0]:
                best = (len(values), position, finer)
        distinct, position, groups = best
        chosen.append(position)
    return np.array(sorted(chosen)) if distinct == n else None


def drawn_hash(layout: Layout, positions: IntArray, rng: np.random.Generator) -> Hash:
    """Random codes, and hash bits whose parities are independent as far as there are inputs."""
    codes = _codes(layout, rng)
    wanted = layout.row_bits + layout.column_bits + layout.choice_bits
    if layout.mix == "bits":
        copied = _copied(layout, rng)
        reads = _single(layout, wanted, rng)
        at, bit = np.divmod(reads[layout.row_bits + layout.column_bits :, 0], layout.head_bits)
        choosing = np.unique(copied[at, bit])
        # What a digit goes by must not follow from what the columns go by.
        codes[:, choosing] = rng.integers(0, 2, (layout.vocab, len(choosing)), dtype=np.uint8)
    else:
        copied = np.tile(np.arange(layout.code_bits), (layout.positions, 1))
        terms = len(MIXES[layout.mix]) - 1
        reads = rng.permutation(copied.size)[:, None] if terms == 1 else _several(layout, wanted, terms, rng)
    places = np.arange(layout.positions) * layout.head_bits
    turn = np.arange(layout.positions)
    checks = np.stack([places + (turn + i) % layout.head_bits for i in range(layout.unknown)] or [places[:0]])
    return Hash(layout, positions, codes, copied, reads, checks)


def _codes(layout: Layout, rng: np.random.Generator) -> BitArray:
    """Random codes, distinct if they are long enough. Single bits are read off codes whose further bits are parities of
    the first ones, so that all of them are evenly spread; longer codes for the other mixes are random throughout."""
    vocab, size = layout.vocab, layout.code_bits
    short = max(1, (vocab - 1).bit_length())
    if layout.mix != "bits" and size > short:
        while True:
            codes = rng.integers(0, 2, (vocab, size), dtype=np.uint8)
            if len(np.unique(np.packbits(codes, axis=1), axis=0)) == vocab:
                return codes
    codes = (rng.permutation(1 << short)[:vocab, None] >> np.arange(short) & 1).astype(np.uint8)
    if size <= short:
        return codes[:, :size]
    sums = rng.permutation(np.arange(1, 1 << min(short, 16)))
    # Parities of few bits are settled early where all heads copy the same ones.
    few = min(3, short - 1) if layout.alike else 1
    sums = sums[np.bitwise_count(sums) > few][: size - short]
    chosen = (sums[:, None] >> np.arange(min(short, 16)) & 1).astype(np.uint8)
    further = codes[:, : chosen.shape[1]] @ chosen.T & 1
    rest = rng.integers(0, 2, (vocab, size - short - len(sums)), dtype=np.uint8)
    return np.concatenate([codes, further, rest], axis=1)


def _copied(layout: Layout, rng: np.random.Generator) -> IntArray:
    """Which bits of a code the head of every position copies, those that codes must have first."""
    size = layout.code_bits
    short = min(size, max(1, (layout.vocab - 1).bit_length()))
    orders = [
        np.concatenate([rng.permutation(short), short + rng.permutation(size - short)])
        for _ in range(1 if layout.alike else layout.positions)
    ]  # fmt: skip
    every = np.broadcast_to(np.stack(orders), (layout.positions, size))
    return every[:, : layout.head_bits].astype(np.int64)


def _single(layout: Layout, wanted: int, rng: np.random.Generator) -> IntArray:
    """One input per hash bit; neighbours in the order come from different positions, so that every group of columns
    reads all of them."""
    count, size = layout.positions, layout.head_bits
    inputs = [place * size + j for j in range(size) for place in rng.permutation(count).tolist()]
    if layout.own:
        inputs = [place * size + j for place, j in own_order(count, size)]
    return np.array(inputs[:wanted])[:, None]


def own_order(count: int, size: int) -> list[tuple[int, int]]:
    """(position, bit) of all inputs, those of the last position half in the first round and half in the second."""
    half = -(-size // 2)
    order = []
    for j in range(size):
        order += [(place, j) for place in range(count - 1)]
        order += [(count - 1, i) for i in range(j * half, min(size, (j + 1) * half))]
    return order


def _several(layout: Layout, wanted: int, terms: int, rng: np.random.Generator) -> IntArray:
    """So many inputs per hash bit, at different positions where there are enough. Bits of a position are dealt like
    cards, so that all of them are read about equally often: keys that differ little differ in every bit that they can.
    """
    count, size = layout.positions, layout.head_bits
    basis: dict[int, int] = {}
    rows: list[list[int]] = []
    decks: list[list[int]] = [[] for _ in range(count)]

    def dealt(position: int) -> int:
        if not decks[position]:
            decks[position] = rng.permutation(size).tolist()
        return position * size + decks[position].pop()

    misses = 0
    while len(rows) < wanted:
        at = rng.permutation(count)[:terms] if count >= terms else rng.integers(0, count, terms)
        row = [dealt(int(position)) for position in at]
        if (len(set(row)) < terms or not _independent(basis, row)) and misses < _TRIES:
            misses += 1
            continue
        misses = 0
        rows.append(row)
    return np.array(rows)


def _independent(basis: dict[int, int], row: list[int]) -> bool:
    """Whether the parity of these inputs is no sum of earlier ones; if so, it joins them."""
    value = 0
    for place in row:
        value ^= 1 << place
    while value:
        top = value.bit_length() - 1
        if top not in basis:
            basis[top] = value
            return True
        value ^= basis[top]
    return False


def hashed_keys(hashing: Hash, keys: IntArray) -> HashedKeys:
    """The bits of keys (N, S) of token ids that have codes."""
    inputs = np.concatenate(
        [hashing.codes[:, bits][keys[:, place]] for place, bits in zip(hashing.positions, hashing.copied, strict=True)],
        axis=1,
    )
    values = np.array(MIXES[hashing.layout.mix], dtype=np.uint8)
    bits = np.empty((len(keys), len(hashing.reads)), dtype=np.uint8)
    for i, read in enumerate(hashing.reads):
        ones = inputs[:, read[0]].copy()
        for place in read[1:]:
            ones += inputs[:, place]
        bits[:, i] = values[ones]
    checks = [inputs[:, read].sum(axis=1, dtype=np.int64) & 1 for read in hashing.checks if len(read)]
    prints = np.zeros(len(keys), dtype=np.int64)
    for i, bit in enumerate(checks):
        prints |= bit << i
    return HashedKeys(bits, prints)
