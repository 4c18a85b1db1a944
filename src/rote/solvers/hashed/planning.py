"""Layouts for so many keys: which sizes are worth a try, smallest first."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from rote.solvers.hashed.independence import bits_for, core, failure_bound, most_keys
from rote.solvers.hashed.layout import CHOICE_BITS, THRESHOLDS, WORD_BITS, Layout

__all__ = ["digit_counts", "editable_layouts", "layouts"]

SPARE_BITS = {2: 1.1, 4: 0.65, 6: 0.48, 8: 0.42}
"""Row bits beyond the least number, among which the trie chooses so that rows are filled evenly; and how many square
roots of its mean a row may then have more than its mean (measured)."""
SPARE_ROWS = 8
"""Three rows in 2^8 are kept for keys that are left over, eight where all heads copy the same bits, which tell keys
apart less evenly."""
CHANCE = 0.12
"""The chance at which a full row may fail: the trie tries several splits, and there are a few rows to spare."""
SPARE_WORDS = 3
"""Words beyond its keys that the core of a row has where relations between hash bits make some useless."""
MOST_GROUPS = 7
UNEVEN_DIGITS = 2.0
"""Square roots of its mean that a digit may have more keys than its mean, where no thresholds are stored."""
LOADS = (0.98, 0.97, 0.96, 0.95, 0.935, 0.92, 0.9, 0.88, 0.86, 0.85, 0.84, 0.8, 0.75, 0.6)
"""Shares of words that are filled, for which groups of columns are looked for."""
ROOMS_OF_RULES = ((1.5, 0), (2.3, 0), (2.6, 0), (1.5, 2), (2.0, 2))
"""(How much wider tables are planned, how many bits longer codes are) where a rule leaves few keys, much alike ones."""
TIGHT_CHANCE = 0.5
MOST_TIGHT = 50_000
"""Keys up to which layouts with little room are tried first."""


def _groupings(width: int) -> Iterator[tuple[int, ...]]:
    """Groups of at least so many columns together: equal ones, or powers of two of two or three sizes."""
    for many in range(2, MOST_GROUPS + 1):
        each = max(2, -(-width // many))
        # Sizes in steps of a thirty-second are fine enough, and the chances of few sizes have to be worked out.
        step = max(1, (1 << bits_for(each)) >> 5)
        yield (-(-each // step) * step,) * many
    for top in range(1, 13):
        for many in range(2, MOST_GROUPS + 1):
            short = width - (many << top)
            if short <= 0:
                break
            for half in range(MOST_GROUPS - many + 1):
                rest = short - (half << top - 1)
                groups = (1 << top,) * many + (1 << top - 1,) * half
                if rest <= 0:
                    yield groups
                    break
                small = max(2, rest)
                if small < 1 << top and len(groups) < MOST_GROUPS and half < 5:
                    yield (*groups, small)


def digit_counts(symbol_bits: int, word_bits: int) -> Iterator[tuple[int, int]]:
    """(blocks, digits) worth a try: few blocks whose bits are nearly all used."""
    best = 0.0
    for blocks in range(1, 9):
        digits = blocks * word_bits // symbol_bits
        used = digits * symbol_bits / (blocks * word_bits)
        if digits and used > best + 0.02:
            best = used
            yield blocks, digits


class Size(NamedTuple):
    """What is kept small."""

    least: Callable[[int, int, int, int], int]
    """A bound from below, given rows, words of a row, and the bits that rows and columns are named by."""
    of: Callable[[Layout, float], int]
    """What a layout takes, given how much is too much already."""


def _least_size(rows: int, words: int, row_bits: int, column_bits: int) -> int:
    """Entries of the two matrices that find rows and hold their words."""
    return (rows + column_bits) * (row_bits + column_bits + words)


def _dense_size(layout: Layout, most: float) -> int:
    return layout.params


def _editable_size(layout: Layout, most: float) -> int:
    """The dense size of a layout in which a cell, the keys of a row that share a digit, has so few words that solving
    it anew touches next to nothing: a thousandth of all weights, or a few; far too much for any other."""
    return layout.params if layout.cell_words <= max(SHORT_ROW, layout.params // 1000) else TOO_LARGE


def editable_layouts(
    keys: int, context: int, vocab: int, classes: int, dtype: str, unknown: int = 0, telling: int = 1
) -> Iterator[Layout]:
    """Layouts of small cells, smallest first. Blocks of the same kind may stand side by side in them: a digit lies in
    one of these, and the words of the others have nothing to do with it."""
    bits, word_bits = max(1, (classes - 1).bit_length()) + unknown, WORD_BITS[dtype]
    counts = tuple(digit_counts(bits, word_bits))
    packings = [tuple((word_bits, *count) for count in counts)]
    packings += [
        tuple((word_bits, n * blocks, n * digits) for blocks, digits in counts if digits * bits == blocks * word_bits)
        for n in range(2, MOST_TIMES + 1)
    ]
    every = (
        layouts(keys, context, vocab, classes, dtype, unknown=unknown, packings=each, size=EDITABLE, telling=telling)
        for each in packings
        if each
    )
    return heapq.merge(*every, key=lambda layout: layout.params)


SHORT_ROW, TOO_LARGE, MOST_TIMES = 16, 1 << 60, 4
DENSE, EDITABLE = Size(_least_size, _dense_size), Size(_least_size, _editable_size)


def layouts(
    keys: int,
    context: int,
    vocab: int,
    classes: int,
    dtype: str,
    *,
    unknown: int = 0,
    packings: Iterable[tuple[int, int, int]] = (),
    size: Size = DENSE,
    alike: bool = False,
    openers: int = 0,
    asking: int = 0,
    telling: int = 1,
) -> Iterator[Layout]:
    """Layouts for so many keys, smallest first; the last one holds any keys. `telling` positions tell them apart.

    `packings` are (word bits, blocks, digits) to choose from: those of rote's own network, unless another one is to
    hold the table.
    """
    symbol_bits = max(1, (classes - 1).bit_length()) + unknown
    packed = tuple(packings) or tuple((WORD_BITS[dtype], *rest) for rest in digit_counts(symbol_bits, WORD_BITS[dtype]))
    positions = min(context, max(telling, _positions(keys, context, vocab)))
    smallest = 0
    last = _smallest(
        keys, context, vocab, classes, packed, unknown, context, "copies", False, 1.0, 0, size, alike, openers,
        asking,
    )  # fmt: skip
    assert last is not None, "there is a row for every key"
    most = size.of(last, math.inf)
    for mix, tight, room, longer, read in (
        ("bits", True, 1.0, 0, positions),
        ("bits", False, 1.0, 0, positions),
        ("parities", True, 1.0, 0, positions),
        ("parities", False, 1.0, 0, positions),
        *((("parities", False, room, longer, positions) for room, longer in ROOMS_OF_RULES) if openers else ()),
        ("fourfold", True, 1.0, 5, positions),
        ("fourfold", True, 1.03, 6, positions),
        ("fourfold", True, 1.06, 6, positions),
        ("fourfold", False, 1.08, 6, positions),
        ("parities", False, 1.02, 6, positions),
        ("parities", False, 1.06, 12, positions),
        ("mixtures", False, 1.1, 8, positions),
        ("parities", False, 1.2, 12, positions),
        ("broad", False, 1.1, 0, positions),
        ("broad", False, 1.3, 2, min(context, 2 * positions)),
        ("mixtures", False, 1.4, 8, min(context, 2 * positions)),
        ("mixtures", False, 2.0, 8, min(context, 4 * positions)),
        ("mixtures", False, 4.0, 8, context),
        ("broad", False, 2.0, 6, context),
    ):
        # Keys of one sequence differ in the position that asks only, which single bits do not tell well.
        if ((unknown or asking) and mix == "bits") or (tight and (keys > MOST_TIGHT or openers)):
            continue
        every = context if unknown else read
        layout = _smallest(
            keys, context, vocab, classes, packed, unknown, every, mix, tight, room, longer, size, alike, openers,
            asking,
        )  # fmt: skip
        params = 0 if layout is None else size.of(layout, math.inf)
        if layout is not None and smallest < params < most:
            smallest = params
            yield layout
    yield last


def _positions(keys: int, context: int, vocab: int) -> int:
    """Positions that tell random contexts apart: all of a short context."""
    wanted = math.ceil((2 * math.log2(max(2, keys)) + 8) / math.log2(max(2, vocab)))
    return min(context, max(8, wanted))


@lru_cache(maxsize=256)
def _smallest(
    keys: int, context: int, vocab: int, classes: int, packings: tuple[tuple[int, int, int], ...], unknown: int,
    positions: int, mix: str, tight: bool, room: float, longer: int, size: Size, alike: bool,
    openers: int, asking: int,
) -> Layout | None:  # fmt: skip
    """The layout with the fewest parameters for one way to hash."""
    if classes == 1 and not unknown:
        # One answer to everything: a table of one word says it.
        keys = 1
    codes = bits_for(vocab + (openers > 0))
    # A token of V has V - 1 independent bits, whatever its code.
    code_bits = min(codes + longer, max(codes, vocab - 1)) if mix != "bits" else codes
    if mix == "copies":
        # A row of its own for every key: whatever the keys are, this works.
        word_bits, head_bits = packings[0][0], max(codes, -(-3 // positions))
        blocks = -(-(max(1, (classes - 1).bit_length()) + unknown) // word_bits)
        return Layout(
            keys, context, vocab, classes, word_bits, unknown, positions, head_bits, head_bits, mix,
            positions * head_bits - 2, keys, 1, (2, 2), blocks, 1, alike=alike, openers=openers,
            asking=asking,
        )  # fmt: skip
    tables: list[tuple[int, int, tuple[int, int, int], int, int, tuple[int, ...], float]] = []
    told_at_least = 2 * math.log2(keys) + (1 if tight else 4)
    for packing in packings:
        _, blocks, digits = packing
        for level in range(max(1, keys).bit_length() + 1):
            per_row = keys / (1 << level) * room
            if per_row > 4096 * digits and (1 << level) < keys:
                continue
            if per_row < 0.5 and level:
                break
            extra = 8 if alike else 3
            rows = 1 if level == 0 else (1 << level) + (2 if level < 6 else extra << level >> SPARE_ROWS)
            for spare, columns, wanted in _candidates(per_row, digits, level > 0, tight):
                row_bits = level + spare + (2 if alike and level else 0)
                # With fewer bits, not all keys would be told apart.
                if row_bits + columns.bits >= told_at_least:
                    least = size.least(rows, blocks * columns.words, row_bits, columns.bits)
                    tables.append((least, len(tables), packing, row_bits, rows, columns.groups, wanted))
    # In the order of what they take at least, few have to be measured; the first of equals is taken.
    tables.sort()
    best: Layout | None = None
    fewest: tuple[float, int] = (math.inf, 0)
    for least, number, (word_bits, blocks, digits), row_bits, rows, groups, wanted in tables:
        if least > fewest[0]:
            break
        chance, wide = (TIGHT_CHANCE if tight else CHANCE) / digits, code_bits
        if not _holds(groups, math.ceil(wanted), chance):
            continue
        if mix == "bits":
            # Tokens may share a code: heads copy only bits that keys are told apart by.
            told = row_bits + sum(map(bits_for, groups))
            wide = -(-(told + (CHOICE_BITS if digits > 1 else 0)) // positions)
            if openers:
                # Openers know their tokens by all of their bits.
                wide = max(wide, codes)
            if wide > max(codes + 8, 2 * codes):
                continue
        layout = Layout(
            keys, context, vocab, classes, word_bits, unknown, positions, wide, wide, mix, row_bits, rows, digits,
            groups, blocks, digits, tight, alike, openers, asking,
        )  # fmt: skip
        params = size.of(layout, fewest[0])
        if (params, number) >= fewest:
            continue
        most = most_keys(groups, chance)
        while layout.ties and most >= wanted and not _fits_core(most, groups, layout.ties):
            most -= 1
        if most >= wanted:
            best, fewest = replace(layout, capacity=most * digits), (params, number)
    return best


@lru_cache(maxsize=1 << 14)
def _holds(groups: tuple[int, ...], keys: int, chance: float) -> bool:
    """Whether so many keys fail with at most this chance."""
    return failure_bound(keys, groups) <= chance


@lru_cache(maxsize=1 << 14)
def _fits_core(keys: int, groups: tuple[int, ...], ties: int) -> bool:
    """Whether the core of so many keys has words enough, less those that ties between hash bits make useless."""
    left, words = core(keys, groups)
    return left < 1.0 or left <= words - (len(groups) - 1) - ties - SPARE_WORDS


class Columns(NamedTuple):
    """Groups of columns."""

    groups: tuple[int, ...]
    words: int
    bits: int
    """Bits of a key that name its columns."""


@lru_cache(maxsize=1024)
def _narrowest(width: int) -> tuple[Columns, ...]:
    every = sorted(set(_groupings(width)))
    return tuple(Columns(groups, sum(groups), sum(map(bits_for, groups))) for groups in every)


def _candidates(keys: float, digits: int, split: bool, tight: bool) -> Iterator[tuple[int, Columns, float]]:
    """Spare row bits and groups of columns that may do, and how many keys of one digit they must hold."""
    if keys <= 1 and not split:
        yield 0, Columns((2, 2), 4, 2), 1.0
        return
    each, ease = keys / digits, 0.5 if tight else 1.0
    for spare, roots in SPARE_BITS.items() if split else ((0, 0.0),):
        # Rows differ in keys, and where digits are not shared out row by row, digits do as well.
        uneven = ease * (roots * math.sqrt(keys) / digits if digits <= THRESHOLDS else UNEVEN_DIGITS * math.sqrt(each))
        # A digit ends where the number that chooses it does, which several keys have in common.
        wanted = each + uneven + (max(1.0, keys / (2 << CHOICE_BITS)) if digits > 1 else 0.0)
        widths = dict.fromkeys(math.ceil(wanted / load) for load in LOADS)
        for columns in dict.fromkeys(itertools.chain.from_iterable(map(_narrowest, widths))):
            yield spare, columns, wanted
