"""When the heads of a stock decoder fetch which bits of the codes, and which channels of the stream they go to.

A head copies d_head bits per layer, so that bits come in rounds: round j is the j-th bit of every position. Row bits
are needed first. Bits of columns are needed when words are selected, group by group, and by then row bits and the bits
of earlier groups have done their work: their channels are taken over, by fetching the difference of the two bits.

Words of the first half of the groups are selected first, in layers of their own, then those of the second half. A word
of each makes a pair: no layer ever adds two words to one channel at once, which a format might not hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from rote.solvers.hashed.hashing import own_order
from rote.solvers.hashed.layout import MIXES, kinks
from rote.solvers.hashed.stock_tail import filled_size

if TYPE_CHECKING:
    from rote.solvers.hashed.layout import Layout

__all__ = ["Fetching", "fetching", "hash_units", "mixing"]

LATE = 8
"""One row bit in so many may be fetched after the first rows have been looked up."""


@dataclass(frozen=True)
class Fetching:
    """Rounds of d_head bits, the layer that fetches each, and the round whose channels it takes over."""

    layers: tuple[int, ...]
    replaced: tuple[int | None, ...]
    rows_start: int
    selection_start: int
    channels: int
    """Channels for the bits that heads fetch."""

    def ready(self, bit: int, d_head: int) -> int:
        """The layer that fetches the j-th bit of a code."""
        return self.layers[bit // d_head]


@lru_cache(maxsize=4096)
def _rounds(bits: int, positions: int, size: int, own: bool, d_head: int) -> tuple[int, ...]:
    """For every hash bit the round that fetches it, -1 where it is read off the last token itself."""
    if not own:
        return tuple(i // positions // d_head for i in range(bits))
    order = own_order(positions, size)[:bits]
    return tuple(-1 if place == positions - 1 else bit // d_head for place, bit in order)


def fetching(layout: Layout, d_head: int, d_mlp: int) -> Fetching:
    """The schedule for MLPs of so many units."""
    if layout.mix != "bits":
        # Several bits make one: all of them are fetched first.
        count = -(-layout.head_bits // d_head)
        after = count - 1 + -(-hash_units(layout, d_mlp) // d_mlp)
        plain = layout.row_bits + layout.column_bits
        return Fetching(tuple(range(count)), (None,) * count, after, after + -(-layout.rows // d_mlp), plain)
    plain = layout.row_bits + layout.column_bits
    bits = _rounds(plain + layout.choice_bits, layout.positions, layout.head_bits, layout.own, d_head)
    count = -(-layout.head_bits // d_head)
    fetched = sum(one >= 0 for one in bits[:plain])
    # Rows that need none of the last few bits come first.
    early = sorted(bits[: layout.row_bits])[: layout.row_bits - layout.row_bits // LATE]
    rows_start = max(0, early[-1]) if early else 0
    selection = max(rows_start + -(-layout.rows // d_mlp), count - 1)
    moved = _moved(layout, bits, count, d_mlp) if selection >= count else []
    layers = [selection + moved.index(one) if one in moved else one for one in range(count)]
    replaced = [moved.index(one) if one in moved else None for one in range(count)]
    saved = sum(one in moved for one in bits[:plain]) if moved else 0
    return Fetching(tuple(layers), tuple(replaced), rows_start, selection, fetched - saved)


def hash_units(layout: Layout, d_mlp: int) -> int:
    """Units that make hash bits of several bits of codes; those of one bit are in one layer."""
    each = len(mixing(layout.mix)) if layout.mix != "bits" else 0
    bits = layout.row_bits + layout.column_bits + layout.choice_bits
    return filled_size((each,) * bits, d_mlp) if each else 0


@lru_cache(maxsize=8)
def mixing(mix: str) -> tuple[tuple[int, int], ...]:
    """(t, change of slope at t) that make a hash bit of the number of ones in its own channel."""
    corners = dict(kinks(MIXES[mix]))
    corners[0] = corners.get(0, 0) - 1
    return tuple((t, change) for t, change in sorted(corners.items()) if change)


def _moved(layout: Layout, bits: tuple[int, ...], count: int, d_mlp: int) -> list[int]:
    """Rounds that are fetched during the selection, into the channels of the first ones."""
    plain = layout.row_bits + layout.column_bits
    # (first, last) layer in which a bit of a round is needed, seen from the selection.
    first, last, choosing = [1 << 30] * count, [-1] * count, set(bits[plain:])
    for one in bits[: layout.row_bits]:
        if one >= 0:
            first[one] = -1
    bit, layer, half = layout.row_bits, 0, len(layout.groups) // 2
    for groups in (range(half), range(half, len(layout.groups))):
        own, word = sum(layout.groups[group] for group in groups), 0
        for group in groups:
            words, size = layout.groups[group], layout.group_bits[group]
            begin, end = word // d_mlp, ((layout.blocks - 1) * own + word + words - 1) // d_mlp
            for one in bits[bit : bit + size]:
                if one >= 0:
                    first[one] = min(first[one], layer + begin)
                    last[one] = max(last[one], layer + end)
            bit, word = bit + size, word + words
        layer += -(-layout.blocks * own // d_mlp)
    late = [one for one in range(count) if first[one] >= 0 and one not in choosing]
    for many in range(len(late), 0, -1):
        moved = late[-many:]
        if many <= moved[0] and all(
            first[one] >= i and last[i] < i and i not in choosing for i, one in enumerate(moved)
        ):
            return moved
    return []
