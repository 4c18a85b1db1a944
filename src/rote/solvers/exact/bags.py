"""What the theorem asks of sequences: different as bags, and tokens that are equal or well apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.data._arrays import FloatArray, IntArray

__all__ = ["ClosePair", "closest_tokens", "equal_bags", "unequal_labels"]


def equal_bags(rows: npt.NDArray[Any]) -> tuple[int, int, int] | None:
    """Two rows with the same tokens up to order, and how many repeat an earlier one; None if all differ."""
    ordered = np.sort(rows, axis=1)
    order = np.lexsort(ordered.T[::-1])
    same = (ordered[order][1:] == ordered[order][:-1]).all(axis=1)
    if not same.any():
        return None
    # The first clash in the order of the rows, so that the message points at the top of the file.
    starts = np.flatnonzero(np.concatenate([[True], ~same]))
    leader = np.minimum.reduceat(order, starts)
    group = np.cumsum(np.concatenate([[True], ~same])) - 1
    later = np.sort(order[order != leader[group]])
    at = int(later[0])
    place = int(np.flatnonzero(order == at)[0])
    return int(leader[group[place]]), at, int(same.sum())


def unequal_labels(rows: IntArray, labels: IntArray) -> tuple[int, int, int] | None:
    """(row, position, position) of equal tokens of one row with different labels; None if there are none."""
    order = np.argsort(rows, axis=1, kind="stable")
    tokens, given = np.take_along_axis(rows, order, axis=1), np.take_along_axis(labels, order, axis=1)
    wrong = (tokens[:, 1:] == tokens[:, :-1]) & (given[:, 1:] != given[:, :-1])
    if not wrong.any():
        return None
    row, at = (int(k) for k in np.argwhere(wrong)[0])
    return row, int(order[row, at]), int(order[row, at + 1])


@dataclass(frozen=True)
class ClosePair:
    """The two tokens that are closest, as places in a list of distinct ones."""

    first: int
    second: int
    distance: float


def closest_tokens(tokens: FloatArray) -> ClosePair | None:
    """The closest pair of distinct vectors; None for a single one."""
    from scipy.spatial import cKDTree

    if len(tokens) < 2:
        return None
    distance, index = cKDTree(tokens).query(tokens, k=2)
    at = int(np.argmin(distance[:, 1]))
    return ClosePair(at, int(index[at, 1] if index[at, 1] != at else index[at, 0]), float(distance[at, 1]))
