"""`Layout`: everything about a hashed table that its size depends on, and its parameters, counted before it is built.

Notation: N keys of S tokens, V tokens, C classes; words of q bits in R rows and w columns; a key reads one word from
each group of columns, in `blocks` tables side by side; its symbol (label and fingerprint, b bits) is one of `digits`
that the sum of its words holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from rote.solvers.hashed.independence import bits_for, most_keys
from rote.solvers.hashed.systems import Segment

__all__ = ["CHOICE_BITS", "MIXES", "WORD_BITS", "Layout", "digit_counts", "label_parts", "layouts"]

WORD_BITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
"""Whole numbers of so many bits, and all sums of them that fit, are exact in these formats."""
MIXES: dict[str, tuple[int, ...]] = {
    "bits": (0, 1),
    "parities": (0, 1, 0, 1),
    "fourfold": (0, 1, 0, 1, 0),
    "mixtures": (0, 0, 1, 0, 1, 1),
    "copies": (0, 1),
}
"""How a hash bit is made: 0 or 1 for every number of ones among the bits of codes that it reads. Single bits serve keys
that are random themselves, parities near-duplicates, fourfold ones (of longer codes) dense tables, and mixtures, which
are no linear functions, grids. Where nothing else helps, copies of all bits tell all keys apart."""
CHOICE_BITS = 8
"""Bits of the number by which a key's digit is told."""
FINGERPRINT_PART = 8
SPARE_BITS = {2: 1.1, 4: 0.65, 6: 0.48, 8: 0.42}
"""Row bits beyond the least number, among which the trie chooses so that rows are filled evenly; and how many square
roots of its mean a row may then have more than its mean (measured)."""
SPARE_ROWS = 8
"""Three rows in 2^8 are kept for keys that are left over, eight where all heads copy the same bits, which tell keys
apart less evenly."""
CHANCE = 0.12
"""The chance at which a full row may fail: the trie tries several splits, and there are a few rows to spare."""
MOST_GROUPS = 7
UNEVEN_DIGITS = 2.0
"""Square roots of its mean that a digit may have more keys than its mean, where no thresholds are stored."""
THRESHOLDS = 8
"""Up to so many digits, every row stores where one digit ends and the next begins."""


LOADS = (0.98, 0.97, 0.96, 0.95, 0.935, 0.92, 0.9, 0.88, 0.86, 0.84, 0.8, 0.75, 0.6)
"""Shares of words that are filled, for which groups of columns are looked for."""
TIGHT_CHANCE = 0.5
MOST_TIGHT = 50_000
"""Keys up to which layouts with little room are tried first."""


def hinges(mix: str, terms: int = 0) -> int:
    """ReLU units per hash bit; `terms` is for a parity of so many bits."""
    if terms:
        return terms
    return sum(1 for _ in kinks(MIXES[mix]))


def kinks(values: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """(t, change of slope at t) of the piecewise linear function through (0, 0), (1, values[1]), ..."""
    slope = 0
    for t in range(len(values) - 1):
        after = values[t + 1] - values[t]
        if after != slope:
            yield t, after - slope
        slope = after


@lru_cache(maxsize=4096)
def label_parts(bits: int, word_bits: int) -> tuple[int, ...]:
    """Sizes of the parts in which the head reads a label of so many bits, the fewest that stay exact.

    A part of r bits has the scores 2 (i - 2^(r-1)) y - i^2, largest at i = y and at least 1 lower elsewhere. Sums over
    n parts, shifted by half of their range, are whole numbers up to n (2^r - 1)^2 / 2, and have to fit into a word.
    """
    for n in range(1, bits + 1):
        r = -(-bits // n)
        if n * (2**r - 1) ** 2 <= 2 ** (word_bits + 1):
            return tuple(bits // n + (i < bits % n) for i in range(n))
    raise ValueError(f"labels of {bits} bits do not fit into words of {word_bits}")


@dataclass(frozen=True)
class Layout:
    """The sizes of one hashed table."""

    keys: int
    context: int
    vocab: int
    """Tokens that stand in contexts."""
    classes: int
    word_bits: int
    unknown: int
    """Bits of the fingerprint; 0 without one."""
    positions: int
    """Positions of a context that are read."""
    code_bits: int
    head_bits: int
    """Bits of a token's code that its head copies."""
    mix: str
    row_bits: int
    rows: int
    capacity: int
    """Keys that a row is meant to hold at most."""
    groups: tuple[int, ...]
    """Columns of every group."""
    blocks: int
    digits: int
    tight: bool = False
    """Planned with little room, for tables so small that many seeds can be tried."""
    alike: bool = False
    """Whether all heads copy the same bits of a code, in the same order, as heads that share their values do."""

    # --- symbols ----------------------------------------------------------------------------------------------------

    @property
    def label_bits(self) -> int:
        return max(1, (self.classes - 1).bit_length())

    @property
    def symbol_bits(self) -> int:
        return self.label_bits + self.unknown

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """Sizes of the parts of a symbol, low bits first: parts of the label, then of the fingerprint."""
        return (*label_parts(self.label_bits, self.word_bits), *self.fingerprint_parts)

    @cached_property
    def unknown_code(self) -> tuple[float, float, float]:
        """(weight, constant, shift) of "unknown": its score is weight * y + constant for the first part y of the label.

        It stays below every right answer while y is one of a label, and wins once y is moved up by the shift.
        """
        sizes = self.parts[: len(self.parts) - len(self.fingerprint_parts)]
        first = sizes[0]
        middle = sum((2**size - 1) ** 2 for size in sizes) // 2
        least = middle - sum(4 ** (size - 1) for size in sizes) - 1
        weight = 3 * 2**first // 2
        over = max(1, weight * (2**first - 1) - least)
        coarse = 1 << max(0, over.bit_length() - 4)
        constant = -(-over // coarse) * coarse
        shift = 1 << (2 * (constant + middle + 2 * sum(4**size for size in sizes[1:])) // 2**first).bit_length()
        return float(weight), -float(constant), float(shift)

    @property
    def fingerprint_parts(self) -> tuple[int, ...]:
        whole, rest = divmod(self.unknown, FINGERPRINT_PART)
        return (FINGERPRINT_PART,) * whole + ((rest,) if rest else ())

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Which bits of which words belong to which bits of which digit, low bits first."""
        segments: list[Segment] = []
        starts = [sum(self.parts[:i]) for i in range(len(self.parts))]
        for plane in range(self.digits * self.symbol_bits):
            (block, bit), (digit, shift) = divmod(plane, self.word_bits), divmod(plane, self.symbol_bits)
            if bit and shift and shift not in starts:
                last = segments.pop()
                segments.append(Segment(block, last.lo, bit + 1, digit, last.shift))
            else:
                segments.append(Segment(block, bit, bit + 1, digit, shift))
        return tuple(segments)

    def used_bits(self, block: int) -> int:
        """Bits of the words of a block that belong to some digit; sums are taken modulo their power of two."""
        return min(self.word_bits, self.digits * self.symbol_bits - block * self.word_bits)

    # --- sizes ------------------------------------------------------------------------------------------------------

    @cached_property
    def width(self) -> int:
        """Words of a row, in one block."""
        return sum(self.groups)

    @cached_property
    def group_bits(self) -> tuple[int, ...]:
        """Bits of a key that name its column in every group."""
        return tuple(map(bits_for, self.groups))

    @cached_property
    def column_bits(self) -> int:
        return sum(self.group_bits)

    @property
    def choice_bits(self) -> int:
        return CHOICE_BITS if self.digits > 1 else 0

    @property
    def thresholds(self) -> int:
        """Words of a row that say where its digits begin."""
        return self.digits - 1 if 1 < self.digits <= THRESHOLDS else 0

    @property
    def carried(self) -> int:
        """Numbers that go along beside the bits: the choice of a digit, fingerprints, the constant."""
        return (self.digits > 1) + len(self.fingerprint_parts) + 1

    @property
    def twofold(self) -> bool:
        """Whether column bits are kept with their complements, so that no sum is ever longer than a word."""
        return self.word_bits > 11

    @property
    def position_bits(self) -> int:
        return max(1, (self.context - 1).bit_length())

    @property
    def own(self) -> bool:
        """Whether bits of the last token are read without a head, off the code that is there anyway."""
        return self.alike and self.mix == "bits" and self.positions == self.context

    @property
    def d_model(self) -> int:
        return max(self.code_bits, self.position_bits)

    @property
    def inputs(self) -> int:
        """What the layers read of the heads, and the constant."""
        return self.positions * self.head_bits + 1

    @cached_property
    def attention(self) -> tuple[tuple[str, int, int], ...]:
        """Embeddings and heads: one head per position that is read."""
        d, keys = self.d_model, self.positions * self.position_bits
        return (
            ("W_E", self.vocab, d),
            ("W_pos", self.context, d),
            ("W_Q", keys, d),
            ("W_K", keys, d),
            ("W_V", self.positions * self.head_bits, d),
        )

    @cached_property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """(out, in) of every matrix after the heads, the readout included."""
        from rote.solvers.hashed.tail import tail_widths

        shapes: list[tuple[int, int]] = []
        wide = self.inputs
        if self.mix != "bits":
            plain = self.row_bits + self.column_bits + self.choice_bits
            units = plain * hinges(self.mix) + self.unknown * self.positions + 1
            mixed = self.row_bits + self.column_bits + self.carried
            shapes += [(units, wide), (mixed, units)]
            wide = mixed
        selected = self.rows + self.column_bits * (1 + self.twofold) + self.carried
        words = self.blocks * self.width + self.thresholds + self.carried
        shapes += [(selected, wide), (words, selected)]
        for units in (*tail_widths(self), self.classes + (self.unknown > 0)):
            shapes.append((units, shapes[-1][0]))
        return tuple(shapes)

    @cached_property
    def params(self) -> int:
        """Every entry of every matrix, zeros included."""
        return sum(a * b for _, a, b in self.attention) + sum(a * b for a, b in self.layers)

    @property
    def table_words(self) -> int:
        """Entries that carry labels."""
        return self.rows * self.width * self.blocks

    @property
    def depth(self) -> int:
        return len(self.layers)

    @property
    def bits(self) -> float:
        """What the labels weigh."""
        return self.keys * math.log2(max(2, self.classes))

    def to_dict(self) -> dict[str, int | str | list[int]]:
        return {
            "rows": self.rows,
            "words": self.width,
            "blocks": self.blocks,
            "digits": self.digits,
            "groups": list(self.groups),
            "word_bits": self.word_bits,
            "symbol_bits": self.symbol_bits,
            "unknown": self.unknown,
            "positions": self.positions,
            "code_bits": self.code_bits,
            "mix": self.mix,
            "depth": self.depth,
        }


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
            for half in range(1 if top > 1 else 0, MOST_GROUPS - many + 1):
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


def _dense_size(layout: Layout, most: float) -> int:
    return layout.params


def layouts(
    keys: int,
    context: int,
    vocab: int,
    classes: int,
    dtype: str,
    *,
    unknown: int = 0,
    packings: Iterable[tuple[int, int, int]] = (),
    size: Callable[[Layout, float], int] | None = None,
    alike: bool = False,
) -> Iterator[Layout]:
    """Layouts for so many keys, smallest first; the last one holds any keys.

    `size` is what is kept small, given a layout and how much is too much already, and `packings` are (word bits,
    blocks, digits) to choose from: those of rote's own network, unless another one is to hold the table.
    """
    measure = size or _dense_size
    symbol_bits = max(1, (classes - 1).bit_length()) + unknown
    packed = tuple(packings) or tuple((WORD_BITS[dtype], *rest) for rest in digit_counts(symbol_bits, WORD_BITS[dtype]))
    positions = _positions(keys, context, vocab)
    smallest = 0
    last = _smallest(
        keys, context, vocab, classes, packed, unknown, context, "copies", False, 1.0, 0, measure, alike
    )  # fmt: skip
    assert last is not None, "there is a row for every key"
    most = measure(last, math.inf)
    for mix, tight, room, longer, read in (
        ("bits", True, 1.0, 0, positions),
        ("bits", False, 1.0, 0, positions),
        ("parities", True, 1.0, 0, positions),
        ("parities", False, 1.0, 0, positions),
        ("fourfold", True, 1.0, 5, positions),
        ("fourfold", True, 1.03, 6, positions),
        ("fourfold", True, 1.06, 6, positions),
        ("fourfold", False, 1.08, 6, positions),
        ("parities", False, 1.02, 6, positions),
        ("parities", False, 1.06, 12, positions),
        ("mixtures", False, 1.1, 8, positions),
        ("parities", False, 1.2, 12, positions),
        ("mixtures", False, 1.4, 8, min(context, 2 * positions)),
        ("mixtures", False, 2.0, 8, min(context, 4 * positions)),
        ("mixtures", False, 4.0, 8, context),
    ):
        if (unknown and mix == "bits") or (tight and keys > MOST_TIGHT):
            continue
        every = context if unknown else read
        layout = _smallest(
            keys, context, vocab, classes, packed, unknown, every, mix, tight, room, longer, measure, alike
        )
        params = 0 if layout is None else measure(layout, math.inf)
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
    positions: int, mix: str, tight: bool, room: float, longer: int, size: Callable[[Layout, float], int], alike: bool,
) -> Layout | None:  # fmt: skip
    """The layout with the fewest parameters for one way to hash."""
    if classes == 1 and not unknown:
        # One answer to everything: a table of one word says it.
        keys = 1
    best: Layout | None = None
    least = math.inf
    codes = max(1, (vocab - 1).bit_length())
    # A token of V has V - 1 independent bits, whatever its code.
    code_bits = min(codes + longer, max(codes, vocab - 1)) if mix != "bits" else codes
    if mix == "copies":
        # A row of its own for every key: whatever the keys are, this works.
        word_bits, head_bits = packings[0][0], max(codes, -(-3 // positions))
        blocks = -(-(max(1, (classes - 1).bit_length()) + unknown) // word_bits)
        return Layout(
            keys, context, vocab, classes, word_bits, unknown, positions, head_bits, head_bits, mix,
            positions * head_bits - 2, keys, 1, (2, 2), blocks, 1, alike=alike,
        )  # fmt: skip
    for word_bits, blocks, digits in packings:
        for level in range(max(1, keys).bit_length() + 1):
            per_row = keys / (1 << level) * room
            if per_row > 4096 * digits and (1 << level) < keys:
                continue
            if per_row < 0.5 and level:
                break
            for spare, groups, wanted in _candidates(per_row, digits, level > 0, tight):
                extra = 8 if alike else 3
                rows = 1 if level == 0 else (1 << level) + (2 if level < 6 else extra << level >> SPARE_ROWS)
                row_bits, wide, copied = level + spare + (2 if alike and level else 0), code_bits, code_bits
                column_bits = sum(map(bits_for, groups))
                told, units = row_bits + column_bits, rows + column_bits
                if units * (told + blocks * sum(groups)) >= least:
                    continue
                if told < 2 * math.log2(keys) + (1 if tight else 4):
                    # So few bits would not tell all keys apart.
                    continue
                if mix == "bits":
                    copied = -(-(told + (CHOICE_BITS if digits > 1 else 0)) // positions)
                    wide = max(codes, copied)
                    if wide > max(codes + 8, 2 * codes):
                        continue
                layout = Layout(
                    keys, context, vocab, classes, word_bits, unknown, positions, wide, copied, mix, row_bits, rows,
                    digits, groups, blocks, digits, tight, alike,
                )  # fmt: skip
                params = size(layout, least)
                if params >= least:
                    continue
                most = most_keys(groups, (TIGHT_CHANCE if tight else CHANCE) / digits)
                if most >= wanted:
                    best = replace(layout, capacity=most * digits)
                    least = params
    return best


@lru_cache(maxsize=256)
def _narrowest(width: int) -> tuple[tuple[int, ...], ...]:
    return tuple(sorted(set(_groupings(width))))


def _candidates(keys: float, digits: int, split: bool, tight: bool) -> Iterator[tuple[int, tuple[int, ...], float]]:
    """Spare row bits and groups of columns that may do, and how many keys of one digit they must hold."""
    if keys <= 1 and not split:
        yield 0, (2, 2), 1.0
        return
    each, ease = keys / digits, 0.5 if tight else 1.0
    for spare, roots in SPARE_BITS.items() if split else ((0, 0.0),):
        # Rows differ in keys, and where digits are not shared out row by row, digits do as well.
        uneven = ease * (roots * math.sqrt(keys) / digits if digits <= THRESHOLDS else UNEVEN_DIGITS * math.sqrt(each))
        wanted = each + uneven + (digits > 1)
        for load in LOADS:
            for groups in _narrowest(math.ceil(wanted / load)):
                yield spare, groups, wanted
