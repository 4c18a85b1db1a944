"""What the theorem asks of sequences: different as bags, and equal labels for equal tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rote.data._arrays import IntArray
from rote.solvers.rows import first_equal

__all__ = ["equal_bags", "unequal_labels"]


def equal_bags(rows: npt.NDArray[Any]) -> tuple[int, int, int] | None:
    """Two rows with the same tokens up to order, and how many repeat an earlier one; None if all differ."""
    later, twin = first_equal(np.sort(rows, axis=1))
    return (int(twin[0]), int(later[0]), len(later)) if len(later) else None


def unequal_labels(rows: IntArray, labels: IntArray) -> tuple[int, int, int] | None:
    """(row, position, position) of equal tokens of one row with different labels; None if there are none."""
    order = np.argsort(rows, axis=1, kind="stable")
    tokens, given = np.take_along_axis(rows, order, axis=1), np.take_along_axis(labels, order, axis=1)
    wrong = (tokens[:, 1:] == tokens[:, :-1]) & (given[:, 1:] != given[:, :-1])
    if not wrong.any():
        return None
    row, at = (int(k) for k in np.argwhere(wrong)[0])
    return row, int(order[row, at]), int(order[row, at + 1])
