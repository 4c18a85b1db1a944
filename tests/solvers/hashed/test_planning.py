"""Plans, held against one that looks at everything in turn."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rote.solvers.hashed import planning
from rote.solvers.hashed.independence import bits_for, most_keys
from rote.solvers.hashed.layout import WORD_BITS, Layout


def _every_table(keys: int, context: int, vocab: int, classes: int, dtype: str) -> Layout | None:
    """The first of the smallest layouts with parities, every one counted, in the order in which they are listed."""
    best: Layout | None = None
    codes = bits_for(vocab)
    for blocks, digits in planning.digit_counts((classes - 1).bit_length(), WORD_BITS[dtype]):
        for level in range(keys.bit_length() + 1):
            if keys / (1 << level) < 0.5 and level:
                break
            rows = 1 if level == 0 else (1 << level) + (2 if level < 6 else 3 << level >> planning.SPARE_ROWS)
            for spare, columns, wanted in planning._candidates(keys / (1 << level), digits, level > 0, False):
                layout = Layout(
                    keys, context, vocab, classes, WORD_BITS[dtype], 0, context, codes, codes, "parities",
                    level + spare, rows, digits, columns.groups, blocks, digits,
                )  # fmt: skip
                most = most_keys(columns.groups, planning.CHANCE / digits)
                while most >= wanted and layout.ties and not planning._fits_core(most, columns.groups, layout.ties):
                    most -= 1
                told = layout.row_bits + layout.column_bits >= 2 * math.log2(keys) + 4
                if told and most >= wanted and (best is None or layout.params < best.params):
                    best = replace(layout, capacity=most * digits)
    return best


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(("keys", "vocab", "classes"), [(40, 9, 3), (100, 20, 20)])
def test_the_smallest_layout_is_that_of_a_search_through_all(dtype: str, keys: int, vocab: int, classes: int) -> None:
    packings = tuple(
        (WORD_BITS[dtype], *each) for each in planning.digit_counts((classes - 1).bit_length(), WORD_BITS[dtype])
    )
    found = planning._smallest(
        keys, 3, vocab, classes, packings, 0, 3, "parities", False, 1.0, 0, planning.DENSE, False, 0, 0
    )
    assert found is not None and found == _every_table(keys, 3, vocab, classes, dtype)
