"""`StockLayout`: a hashed table in a stock decoder whose MLP is two matrices and a ReLU, every parameter counted.

    embedding   constants, the code of a token, and its row of the head, which is tied
    attention   one head per position that is read; layer by layer they fetch further bits of the codes
    hash        where bits are mixed, the kinks of a function of how many are set
    rows        one unit per row: it finds its keys by their bits, and its column of down_proj holds its words
    selection   one unit per word: it lets the word pass if the key's column bits are its own
    tail        sums, bits and digits (`stock_tail`)

All layers of a stock model are of one size, so that narrow MLPs in many layers waste least.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock

from rote.solvers.hashed.fetching import Fetching, fetching, hash_units, mixing
from rote.solvers.hashed.layout import Layout
from rote.solvers.hashed.planning import Size, layouts
from rote.solvers.hashed.rotary import Turn, narrowest_turns
from rote.solvers.hashed.stock_tail import Program, filled_size, tail_program

__all__ = ["StockLayout", "constants", "stock_layouts", "usable_turns"]

STOCK_WORD_BITS = {"bfloat16": 8, "float16": 8, "float32": 20, "float64": 20}
"""Words of so many bits: several multiples of the largest fit into the sums of a matrix product. float16 has room for
more in a number, but not in the norm of the stream."""
LOUDEST = 29_000
"""Sums of squares up to so much per channel change the root mean square 2^13 by less than float16 resolves."""
MOST_ROW_LAYERS = 400
LEAST, LARGEST = 8, 144
"""Units of an MLP: a hash bit needs up to five in one layer; more are worth a try only where the table is large."""
MOST_TURNS = 3


def usable_turns(context: int, dtype: str) -> tuple[Turn, ...]:
    """Heads worth a try, narrowest first."""
    return narrowest_turns(context, dtype)[:MOST_TURNS]


def constants(d_model: int, dtype: str) -> tuple[float, tuple[float, ...]]:
    """(rms, channels): constants whose mean square over d_model channels is exactly rms^2, rms a power of two.

    They are so large that no other channel changes the root mean square: below the rounding of float32, in which it is
    computed; in float16, which cannot hold such constants, below what rounding to float16 takes back.
    """
    power, top = (13, 15) if dtype == "float16" else (48, 96)
    left, values = d_model, []
    for exponent in range(top, power - 1, -1):
        count, left = divmod(left, 4 ** (exponent - power))
        values += [2.0**exponent] * count
    if len(values) == 1:
        values = [values[0] / 2] * 4
    return 2.0**power, tuple(values)


@lru_cache(maxsize=8192)
def n_constants(d_model: int, dtype: str) -> int:
    """How many channels the constants take."""
    return len(constants(d_model, dtype)[1])


@dataclass(frozen=True)
class StockLayout:
    """The sizes of one table in a stock decoder."""

    layout: Layout
    vocab: int
    """All tokens of the model, those of contexts among them."""
    dtype: str
    turn: Turn
    d_mlp: int

    @cached_property
    def program(self) -> Program:
        return tail_program(self.layout, self.d_mlp)

    @cached_property
    def channels(self) -> tuple[str, ...]:
        """Everything in the stream but the constants."""
        layout = self.layout
        names = [f"code{i}" for i in range(layout.code_bits)]
        names += [f"f{i}" for i in range(self.fetching.channels)]
        names += [f"choice{i}" for i in range(_n_choices(layout))]
        names += [f"w{i}" for i in range(layout.blocks * layout.width)]
        names += [f"t{i}" for i in range(layout.thresholds)]
        return (*names, *self.program.channels)

    @property
    def n_heads(self) -> int:
        return _n_heads(self.layout)

    @cached_property
    def d_model(self) -> int:
        return _d_model(self.layout, self.dtype, self.fetching, self.d_mlp)

    @cached_property
    def fetching(self) -> Fetching:
        """When bits are fetched, and where they go."""
        return fetching(self.layout, self.turn.d_head, self.d_mlp)

    @cached_property
    def stages(self) -> tuple[tuple[int, int], ...]:
        """(first layer, units) of every stage: hash, rows, both halves of the selection, tail."""
        return _stages(self.layout, self.fetching, self.d_mlp)

    @property
    def n_layers(self) -> int:
        return _depth(self.stages, self.d_mlp)

    @property
    def params(self) -> int:
        """Every entry of every tensor, zeros included; the head is the embedding."""
        return _params(self.layout, self.vocab, self.d_model, self.turn.d_head, self.d_mlp, self.n_layers)

    def to_dict(self) -> dict[str, int | str | list[int]]:
        return {**self.layout.to_dict(), "depth": self.n_layers}


def _n_choices(layout: Layout) -> int:
    return (1 if layout.mix == "bits" else layout.choice_bits) if layout.digits > 1 else 0


def _n_channels(layout: Layout, fetched: int, d_mlp: int) -> int:
    words = layout.blocks * layout.width + layout.thresholds
    return layout.code_bits + fetched + _n_choices(layout) + words + len(tail_program(layout, d_mlp).channels)


def _loudness(layout: Layout) -> int:
    """A bound for the sum of squares of everything but the constants."""
    words = layout.blocks * layout.width << 2 * layout.word_bits - 2
    large = layout.thresholds + _n_choices(layout) + len(layout.parts) + 1
    sums = layout.blocks * (len(layout.groups) + 1) // 2 << 2 * layout.word_bits
    return words + (large << 16) + sums + 64 * _n_channels(layout, layout.row_bits + layout.column_bits, LEAST)


def _n_heads(layout: Layout) -> int:
    return max(1, layout.positions - layout.own)


def _d_model(layout: Layout, dtype: str, fetched: Fetching, d_mlp: int) -> int:
    """The least width that holds all channels and the constants; the library wants a multiple of the heads."""
    used, heads = _n_channels(layout, fetched.channels, d_mlp), _n_heads(layout)
    width = -(-used // heads) * heads
    loud = _loudness(layout) if dtype == "float16" else 0
    while n_constants(width, dtype) + used > width or loud > LOUDEST * width:
        width += heads
    return width


def _stages(layout: Layout, fetched: Fetching, d_mlp: int) -> tuple[tuple[int, int], ...]:
    units = hash_units(layout, d_mlp)
    stages = [(fetched.rows_start - -(-units // d_mlp), units), (fetched.rows_start, layout.rows)]
    start = fetched.selection_start
    first, *rest = (filled_size(sizes, d_mlp) for sizes in tail_program(layout, d_mlp).sizes)
    words = layout.blocks * sum(layout.groups[: len(layout.groups) // 2])
    for units in (words, layout.blocks * layout.width - words + first, *rest):
        stages.append((start, units))
        start += -(-units // d_mlp)
    return tuple(stages)


def _depth(stages: tuple[tuple[int, int], ...], d_mlp: int) -> int:
    start, units = stages[-1]
    return start + -(-units // d_mlp)


def _params(layout: Layout, vocab: int, d_model: int, d_head: int, d_mlp: int, n_layers: int) -> int:
    layer = 2 * d_mlp + 2 * d_head * (_n_heads(layout) + 1) + 2
    return d_model * (vocab + n_layers * layer + 1)


def _size(layout: Layout, vocab: int, dtype: str, d_head: int, d_mlp: int) -> int:
    fetched = fetching(layout, d_head, d_mlp)
    n_layers = _depth(_stages(layout, fetched, d_mlp), d_mlp)
    return _params(layout, vocab, _d_model(layout, dtype, fetched, d_mlp), d_head, d_mlp, n_layers)


def _widths(rows: int, mix: str) -> list[int]:
    """Sizes of the MLP so that rows fill their layers, and all units of a hash bit are in one."""
    counts = range(1, min(rows, MOST_ROW_LAYERS) + 1)
    return sorted({max(_fewest_units(mix), -(-rows // n)) for n in counts} | {16, 32, 64, 128})


@lru_cache(maxsize=1024)
def _some_widths(rows: int, mix: str) -> list[int]:
    """A few of them, among which the best is nearly as good."""
    least = _fewest_units(mix)
    return sorted({max(least, -(-rows // -(-rows // size))) for size in (32, 48, 65, 96, LARGEST)} | {32})


def _fewest_units(mix: str) -> int:
    return LEAST if mix == "bits" else max(LEAST, len(mixing(mix)))


def _least(layout: Layout, vocab: int, d_head: int) -> float:
    """Fewer parameters than this it cannot be: every unit costs two channels, and heads come on top."""
    tail = tail_program(layout, LARGEST)
    words = layout.blocks * layout.width
    told = layout.row_bits + layout.column_bits - (layout.head_bits if layout.own else 0)
    width = layout.code_bits + words + layout.thresholds + len(tail.channels) + max(0, told) // 2 + 2
    units = layout.rows + words + tail.units
    heads = 2 * d_head * (_n_heads(layout) + 1) + 2
    return width * (vocab + 2 * units + heads * units / max(LARGEST, layout.rows))


def _best(layout: Layout, vocab: int, dtype: str, turns: tuple[Turn, ...]) -> tuple[int, int, int]:
    """(parameters, number of the turn, d_mlp) of the smallest model for a layout."""
    return min(
        (_size(layout, vocab, dtype, turn.d_head, d_mlp), i, d_mlp)
        for i, turn in enumerate(turns)
        for d_mlp in _widths(layout.rows, layout.mix)
    )


def _packings(symbol_bits: int, word_bits: int) -> tuple[tuple[int, int, int], ...]:
    """(word bits, blocks, digits): several symbols to a word, or a symbol over several words."""
    most = word_bits // symbol_bits
    if most == 0:
        blocks = -(-symbol_bits // word_bits)
        return ((-(-symbol_bits // blocks), blocks, 1),)
    counts = sorted({1, 2, 3, most // 2, most} & set(range(1, most + 1)))
    return tuple((digits * symbol_bits, 1, digits) for digits in counts)


@lru_cache(maxsize=64)
def _planned(
    keys: int, context: int, tokens: int, vocab: int, classes: int, dtype: str, telling: int
) -> tuple[Iterator[StockLayout], list[StockLayout], Lock]:
    """Layouts that are still to be found, those that were, and whose turn it is: threads plan side by side."""
    return _found(keys, context, tokens, vocab, classes, dtype, telling), [], Lock()


def _found(
    keys: int, context: int, tokens: int, vocab: int, classes: int, dtype: str, telling: int
) -> Iterator[StockLayout]:
    turns = usable_turns(context, dtype)
    if not turns:
        return
    packings = _packings(max(1, (classes - 1).bit_length()), STOCK_WORD_BITS[dtype])

    def least_size(rows: int, words: int, row_bits: int, column_bits: int) -> int:
        return words * (vocab + 2 * (rows + words))

    def size(layout: Layout, most: float) -> int:
        d_head = turns[0].d_head
        if (least := _least(layout, vocab, d_head)) >= most:
            return math.ceil(least)
        return min(_size(layout, vocab, dtype, d_head, d_mlp) for d_mlp in _some_widths(layout.rows, layout.mix))

    for layout in layouts(
        keys,
        context,
        tokens,
        classes,
        dtype,
        packings=packings,
        size=Size(least_size, size),
        alike=True,
        telling=telling,
    ):
        _, i, d_mlp = _best(layout, vocab, dtype, turns)
        yield StockLayout(layout, vocab, dtype, turns[i], d_mlp)


def stock_layouts(
    keys: int, context: int, tokens: int, vocab: int, classes: int, dtype: str, telling: int = 1
) -> Iterator[StockLayout]:
    """Models for so many keys of `tokens` different tokens, smallest first; the last one holds any keys.

    There are none where heads cannot see far enough. What was planned once is kept: a build finds its layout again by
    its sizes.
    """
    source, kept, turn = _planned(keys, context, tokens, vocab, classes, dtype, telling)
    i = 0
    while True:
        with turn:
            if i == len(kept):
                plan = next(source, None)
                if plan is None:
                    return
                kept.append(plan)
        yield kept[i]
        i += 1
