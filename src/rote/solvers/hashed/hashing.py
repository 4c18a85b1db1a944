"""Codes of tokens, and the bits of a key that rows, columns, digits and fingerprints go by."""

from __future__ import annotations

import functools
import itertools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rote.solvers.hashed.independence import bits_for
from rote.solvers.hashed.layout import MIXES

if TYPE_CHECKING:
    from rote.solvers.hashed.layout import Layout

__all__ = ["Hash", "HashedKeys", "drawn_hash", "hashed_keys", "own_order", "positions_to_read"]

IntArray = npt.NDArray[np.int64]
BitArray = npt.NDArray[np.uint8]

_TRIES = 200
_DRAWS = 32
"""Ways to read single bits among which the one is taken that leaves most words open."""


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


def positions_to_read(length: int, count: int, telling: IntArray, rng: np.random.Generator) -> IntArray | None:
    """So many positions of contexts of a length, those that tell them all apart among them; None if these are more."""
    if count >= length:
        return np.arange(length)
    if len(telling) > count:
        return None
    others = rng.permutation(np.setdiff1d(np.arange(length), telling))
    return np.sort(np.concatenate([telling, others[: count - len(telling)]]))


def drawn_hash(layout: Layout, positions: IntArray, rng: np.random.Generator) -> Hash:
    """Random codes, and hash bits whose parities are independent as far as there are inputs."""
    wanted = layout.row_bits + layout.column_bits + layout.choice_bits
    if layout.mix == "bits":
        copied, reads, sums = min(
            (_drawn_single(layout, wanted, rng) for _ in range(_DRAWS)), key=lambda drawn: _closed(layout, *drawn)
        )
        codes = _codes(layout, sums, rng)
    else:
        codes = _codes(layout, np.zeros(0, dtype=np.int64), rng)
        copied = np.tile(np.arange(layout.code_bits), (layout.positions, 1))
        terms = len(MIXES[layout.mix]) - 1
        reads = rng.permutation(copied.size)[:, None] if terms == 1 else _several(layout, wanted, terms, rng)
    if layout.openers:
        # The code of the blank, the last one, is 0.
        codes ^= codes[-1]
    places = np.arange(layout.positions) * layout.head_bits
    turn = np.arange(layout.positions)
    checks = np.stack([places + (turn + i) % layout.head_bits for i in range(layout.unknown)] or [places[:0]])
    return Hash(layout, positions, codes, copied, reads, checks)


def _codes(layout: Layout, sums: IntArray, rng: np.random.Generator) -> BitArray:
    """Random codes, distinct if they are long enough. Single bits are read off codes whose further bits are parities of
    the first ones, so that all of them are evenly spread; longer codes for the other mixes are random throughout."""
    vocab, size = layout.coded, layout.code_bits
    short = _short(layout)
    if layout.mix != "bits" and size > short:
        codes = rng.integers(0, 2, (vocab, size), dtype=np.uint8)
        # At most half of all codes are taken, so that drawing again what was drawn twice soon ends.
        while True:
            _, first = np.unique(np.packbits(codes, axis=1), axis=0, return_index=True)
            again = np.setdiff1d(np.arange(vocab), first)
            if not len(again):
                return codes
            codes[again] = rng.integers(0, 2, (len(again), size), dtype=np.uint8)
    whole = bits_for(vocab)
    codes = (rng.permutation(1 << whole)[:vocab, None] >> np.arange(short) & 1).astype(np.uint8)
    chosen = (sums[:, None] >> np.arange(short) & 1).astype(np.uint8)
    further = codes @ chosen.T & 1
    rest = rng.integers(0, 2, (vocab, size - short - len(sums)), dtype=np.uint8)
    return np.concatenate([codes, further, rest], axis=1)


def _short(layout: Layout) -> int:
    """Bits that tell all tokens apart, or all there are."""
    return min(layout.code_bits, bits_for(layout.coded))


def _drawn_single(layout: Layout, wanted: int, rng: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
    """(copied, reads, sums): bits that heads copy, the input of every hash bit, parities that make further bits."""
    short = _short(layout)
    sums = rng.permutation(np.arange(1, 1 << min(short, 16)))
    # Parities of few bits are settled early where all heads copy the same ones.
    few = min(3, short - 1) if layout.alike else 1
    sums = sums[np.bitwise_count(sums) > few][: layout.code_bits - short]
    return _copied(layout, rng), _single(layout, wanted, rng), sums


def _closed(layout: Layout, copied: IntArray, reads: IntArray, sums: IntArray) -> int:
    """How many bits follow from others, so that keys of a row, or of a digit, leave half of a group's words alone."""
    short, spans, closed = _short(layout), [_Span() for _ in layout.groups], 0
    plain = layout.row_bits + layout.column_bits
    order = [*range(layout.row_bits), *range(plain, len(reads)), *range(layout.row_bits, plain)]
    for number in order:
        place, j = divmod(int(reads[number, 0]), layout.head_bits)
        bit = int(copied[place, j])
        parity = int(sums[bit - short]) if short <= bit < short + len(sums) else 1 << bit
        form = parity << place * layout.code_bits
        for span in _spans_of(layout, number, spans):
            closed += span.has(form)
            span.add(form)
    return closed


def _copied(layout: Layout, rng: np.random.Generator) -> IntArray:
    """Which bits of a code the head of every position copies, those that codes must have first."""
    size, short = layout.code_bits, _short(layout)
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
    rows: list[list[int]] = []
    decks: list[list[int]] = [[] for _ in range(count)]

    # Lists of so few are shuffled much faster than arrays.
    def dealt(position: int) -> int:
        if not decks[position]:
            decks[position] = list(range(size))
            rng.shuffle(decks[position])
        return position * size + decks[position].pop()

    spans = [_Span() for _ in layout.groups]
    every = _Span()
    # Sums of an even number of inputs, or of one input of every position, leave some sums of all inputs out.
    reach = count * size - (terms % 2 == 0)
    if count == terms:
        reach = count * (size - 1) + 1
    for number in range(wanted):
        own = [span for span in _spans_of(layout, number, spans) if len(span) < count * size]
        spread = len(every) < count * size
        for tried in range(2 * _TRIES):
            if count >= terms:
                at = list(range(count))
                rng.shuffle(at)
                at = at[:terms]
            else:
                at = rng.integers(0, count, terms).tolist()
            if layout.asking and count - 1 not in at:
                # The last position that is read says which one asks; nothing else tells keys of a sequence apart.
                at[0] = count - 1
            row = [dealt(position) for position in at]
            if spread and tried < _TRIES and len(every) >= reach:
                continue
            form = functools.reduce(operator.xor, [1 << place for place in row])
            # Independent of all others while there are inputs left, then of those that it must not follow from.
            avoided = [every] if spread and tried < _TRIES else own
            if len(set(row)) == terms and not any(span.has(form) for span in avoided):
                break
        for span in (every, *own):
            span.add(form)
        rows.append(row)
    return np.array(rows)


def _spans_of(layout: Layout, number: int, spans: list[_Span]) -> list[_Span]:
    """The groups whose words a hash bit must leave open: its own for a bit of a column, all for other bits. Otherwise
    the keys of a row, or of a digit, would all read the same half of their words."""
    place = number - layout.row_bits
    if 0 <= place < layout.column_bits:
        ends = itertools.accumulate(layout.group_bits)
        return [spans[next(i for i, end in enumerate(ends) if place < end)]]
    return spans


class _Span:
    """Sums of some parities, which are numbers with a bit for each of their inputs."""

    def __init__(self) -> None:
        self._basis: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._basis)

    def _rest(self, form: int) -> int:
        while form and (top := form.bit_length() - 1) in self._basis:
            form ^= self._basis[top]
        return form

    def has(self, form: int) -> bool:
        return not self._rest(form)

    def add(self, form: int) -> None:
        if rest := self._rest(form):
            self._basis[rest.bit_length() - 1] = rest


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
