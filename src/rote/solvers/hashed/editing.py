"""A hashed table that lies in a network: which row and words every key reads, and single rows solved anew.

A row holds the words of its keys only, and a key reads its row only. So what happens to the facts of a row changes the
words of that row and nothing else. Words that no equation determines stay as they are. To forget a key is to let
its words add up to a symbol that is drawn at random: among all words with which the other keys of the row find their
symbols every one is then as likely as any other, as if the key had never been there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.errors import CheckpointError
from rote.solvers.hashed.hashing import HashedKeys
from rote.solvers.hashed.layout import FINGERPRINT_PART, Layout
from rote.solvers.hashed.rows import digit_starts
from rote.solvers.hashed.systems import row_words

__all__ = ["Reads", "StoredTable", "stored_table"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Reads:
    """What the network finds out about keys: the row of each (-1 where none answers), the word that it reads in every
    group of columns (N, a), the number that chooses its digit, and its fingerprint."""

    rows: IntArray
    columns: IntArray
    choices: IntArray
    prints: IntArray

    def of(self, index: Any) -> Reads:
        return Reads(self.rows[index], self.columns[index], self.choices[index], self.prints[index])

    def with_(self, *more: Reads) -> Reads:
        """These keys and more behind them."""
        every = [self, *more]
        names = ("rows", "columns", "choices", "prints")
        return Reads(*(np.concatenate([getattr(one, name) for one in every]) for name in names))


@dataclass(frozen=True)
class StoredTable:
    """Where the table of a layout lies among the layers of a network."""

    layout: Layout
    layer: int
    """The matrix of the words; the one before it selects rows and columns."""

    def reads(self, units: npt.NDArray[Any]) -> Reads:
        """What keys read, by the units (N, m) behind the selection."""
        layout = self.layout
        rows = units[:, : layout.rows] > 0
        none, several = ~rows.any(axis=1), rows.sum(axis=1) > 1
        if several.any():
            raise CheckpointError("some key has two rows of the table; the weights are not those of a hashed table.")
        bits = units[:, layout.rows : layout.rows + layout.column_bits].astype(np.uint8)
        along = np.rint(units[:, -layout.carried : -1]).astype(np.int64)
        choices = along[:, 0] if layout.digits > 1 else np.zeros(len(units), dtype=np.int64)
        prints = np.zeros(len(units), dtype=np.int64)
        for i in range(len(layout.fingerprint_parts)):
            prints |= along[:, int(layout.digits > 1) + i] << i * FINGERPRINT_PART
        before = np.zeros((len(units), layout.row_bits), dtype=np.uint8)
        columns = HashedKeys(np.concatenate([before, bits], axis=1), prints).columns(layout).astype(np.int64)
        return Reads(np.where(none, -1, rows.argmax(axis=1)), columns, choices, prints)

    def words(self, matrix: npt.NDArray[np.float64], row: int) -> IntArray:
        """The words (blocks, w) of a row."""
        count = self.layout.blocks * self.layout.width
        return matrix[:count, row].astype(np.int64).reshape(self.layout.blocks, self.layout.width)

    def drawn(self, rng: np.random.Generator) -> IntArray:
        """Words of a row without keys."""
        layout = self.layout
        most = [[1 << layout.used_bits(block)] for block in range(layout.blocks)]
        return rng.integers(0, most, (layout.blocks, layout.width))

    def digits(self, matrix: npt.NDArray[np.float64], row: int, choices: IntArray) -> IntArray:
        """The digit of every key of a row."""
        layout, count = self.layout, self.layout.blocks * self.layout.width
        starts = digit_starts(choices, layout)
        if layout.thresholds:
            starts = matrix[count : count + layout.thresholds, row].astype(np.int64)
        return np.searchsorted(starts, choices, side="right")

    def reading(self, matrix: npt.NDArray[np.float64], row: int, reads: Reads) -> npt.NDArray[np.bool_]:
        """Which words (N, blocks * w) keys of a row read: those of their columns in the blocks that have bits of their
        digit. In other blocks they read words too, and make nothing of them."""
        layout = self.layout
        digits = self.digits(matrix, row, reads.choices)
        used = np.zeros((layout.digits, layout.blocks), dtype=np.bool_)
        for segment in layout.segments:
            used[segment.digit, segment.block] = True
        found = np.zeros((len(digits), layout.blocks, layout.width), dtype=np.bool_)
        for column in reads.columns.T:
            found[np.arange(len(digits)), :, column] |= used[digits]
        return found.reshape(len(digits), -1)

    def symbols(self, labels: IntArray, prints: IntArray) -> IntArray:
        """What keys must find: their labels, and their fingerprints where there are such."""
        return labels | prints << self.layout.label_bits

    def solved(
        self, matrix: npt.NDArray[np.float64], row: int, reads: Reads, symbols: IntArray, start: IntArray
    ) -> npt.NDArray[np.float64] | None:
        """The column of the matrix for a row in which all these keys find their symbols; None if there is none.

        Words that no key determines are those of `start`.
        """
        layout = self.layout
        digits = self.digits(matrix, row, reads.choices)
        words = row_words(reads.columns, digits, symbols, layout.segments, start, compiled=False)
        if words is None:
            return None
        column = matrix[:, row].copy()
        column[: layout.blocks * layout.width] = words.ravel()
        return column


def stored_table(
    record: Mapping[str, Any], shapes: Sequence[tuple[int, ...]], *, classes: int, context: int, vocab: int
) -> StoredTable:
    """The table that a certificate's layout and the shapes (out, in) of the layers speak of.

    What does not fit together is refused.
    """
    try:
        groups = tuple(int(words) for words in record["groups"])
        names = ("word_bits", "unknown", "positions", "code_bits", "rows", "blocks", "digits")
        word_bits, unknown, positions, code_bits, rows, blocks, digits = (int(record[name]) for name in names)
        # What only matters before the table is not known, and not needed.
        known = Layout(
            keys=1, context=context, vocab=vocab, classes=classes, word_bits=word_bits, unknown=unknown,
            positions=positions, code_bits=code_bits, head_bits=1, mix=str(record["mix"]), row_bits=0, rows=rows,
            capacity=0, groups=groups, blocks=blocks, digits=digits, openers=int(record.get("openers", 0)),
        )  # fmt: skip
        layer = (1 if known.mix == "bits" else 3) + 2 * (known.openers > 0)
        selected = known.rows + known.column_bits * (1 + known.twofold) + known.carried
        words = known.blocks * known.width + known.thresholds + known.carried
        fits = shapes[layer] == (words, selected) and shapes[layer - 1][0] == selected
    except (LookupError, TypeError, ValueError, ArithmeticError):
        fits = False
    if not fits:
        raise CheckpointError("the certificate's layout is not that of the weights; it was edited, build it again.")
    return StoredTable(known, layer)
