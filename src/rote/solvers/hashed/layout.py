"""`Layout`: everything about a hashed table that its size depends on, and its parameters, counted before it is built.

Notation: N keys of S tokens, V tokens, C classes; words of q bits in R rows and w columns; a key reads one word from
each group of columns, in `blocks` tables side by side; its symbol (label and fingerprint, b bits) is one of `digits`
that the sum of its words holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from rote.solvers.hashed.independence import bits_for
from rote.solvers.hashed.systems import Segment

__all__ = ["CHOICE_BITS", "MIXES", "WORD_BITS", "Layout", "label_parts"]

WORD_BITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
"""Whole numbers of so many bits, and all sums of them that fit, are exact in these formats."""
MIXES: dict[str, tuple[int, ...]] = {
    "bits": (0, 1),
    "parities": (0, 1, 0, 1),
    "fourfold": (0, 1, 0, 1, 0),
    "mixtures": (0, 0, 1, 0, 1, 1),
    "broad": (0, 1) * 8 + (0,),
    "copies": (0, 1),
}
"""How a hash bit is made: 0 or 1 for every number of ones among the bits of codes that it reads. Single bits serve keys
that are random themselves, parities near-duplicates, fourfold ones (of longer codes) dense tables, and mixtures, which
are no linear functions, grids. Broad parities serve long keys that differ in one token of many. Where nothing else
helps, copies of all bits tell all keys apart."""
NONLINEAR = ("mixtures", "copies")
CHOICE_BITS = 8
"""Bits of the number by which a key's digit is told."""
FINGERPRINT_PART = 8
THRESHOLDS = 8
"""Up to so many digits, every row stores where one digit ends and the next begins."""


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
    openers: int = 0
    """Units of a rule that says which tokens are read."""
    asking: int = 0
    """Positions that ask, where each of a sequence's has a label; 0 where only the last one does. The position that
    asks is then one more token of the key, the last of `context`, with a code of its own among `vocab`."""

    # --- symbols ----------------------------------------------------------------------------------------------------

    @property
    def label_bits(self) -> int:
        return max(1, (self.classes - 1).bit_length())

    @property
    def coded(self) -> int:
        """Tokens that have codes: those of contexts, and the blank where tokens may be hidden."""
        return self.vocab + (self.openers > 0)

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

    @cached_property
    def tail_key(self) -> tuple[object, ...]:
        """All that what comes behind the rows depends on."""
        return (self.word_bits, self.blocks, self.digits, self.symbol_bits, len(self.groups), self.mix == "bits")

    # --- sizes ------------------------------------------------------------------------------------------------------

    @cached_property
    def width(self) -> int:
        """Words of a row, in one block."""
        return sum(self.groups)

    @property
    def cell_words(self) -> int:
        """Words that the keys of one row and one digit read, at most: those of the blocks that the digit lies in."""
        size, word = self.symbol_bits, self.word_bits
        return self.width * max((d * size + size - 1) // word - d * size // word + 1 for d in range(self.digits))

    @cached_property
    def group_bits(self) -> tuple[int, ...]:
        """Bits of a key that name its column in every group."""
        return tuple(map(bits_for, self.groups))

    @cached_property
    def column_bits(self) -> int:
        return sum(self.group_bits)

    @cached_property
    def ties(self) -> int:
        """Linear relations between the column bits of the keys of one row, at most. Each makes one word useless: one of
        a set of words of which every key reads an even number follows from the others.

        Parities are linear in the bits of the codes, and rows and digits have settled some of these already.
        """
        if self.mix in NONLINEAR:
            return 0
        # Further bits than a code must have are parities of the first ones where single bits are read.
        each = min(self.head_bits, bits_for(self.coded)) if self.mix == "bits" else self.head_bits
        free = max(0, self.positions * each - (self.rows - 1).bit_length() - (self.digits - 1).bit_length())
        # Numbers that share a word differ in their lowest bit, which names no set of words then.
        named = sum(size - (words < 1 << size) for words, size in zip(self.groups, self.group_bits, strict=True))
        return max(0, named - free)

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
    def length(self) -> int:
        """Tokens of a sequence."""
        return self.asking or self.context

    @property
    def position_bits(self) -> int:
        return max(1, (self.length - 1).bit_length())

    @property
    def own(self) -> bool:
        """Whether bits of the last token are read without a head, off the code that is there anyway."""
        return self.alike and self.mix == "bits" and self.positions == self.context

    @property
    def d_model(self) -> int:
        if self.asking:
            # A token's code, a position's code and marks, and the constant that heads ask with.
            return 2 * self.code_bits + self.position_bits + 1
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
            ("W_E", self.vocab - self.asking, d),
            ("W_pos", self.length, d),
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
        if self.openers:
            shapes += [(self.openers + wide, wide), (wide, self.openers + wide)]
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
            "openers": self.openers,
            "depth": self.depth,
        }
