"""Equal rows, and the closest pair of distinct points: a k-d tree in few dimensions, blocked distances in many.

Blocks are compared in float32 with a bound on its error; every pair that could be the closest is measured again in
float64 from the differences. Points are sorted along their widest direction, and blocks farther apart than the best
pair so far are passed over.
"""

from __future__ import annotations

import numpy as np

from rote.data._arrays import FloatArray as Array
from rote.data._arrays import IntArray

__all__ = ["closest_pair", "distinct_rows", "first_equal"]


_TREE_WIDTH = 10
_BLOCK = 2048
_MOST_MEASURED = 4_000_000


def distinct_rows(rows: Array) -> tuple[IntArray, IntArray]:
    """The place where each distinct row occurs first, and for every row which of these it equals."""
    plain = np.ascontiguousarray(rows + 0.0)  # one zero, not two
    keys = plain.view(np.dtype((np.void, plain.dtype.itemsize * plain.shape[1])))[:, 0]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order].astype(np.int64), place[inverse.reshape(-1)].astype(np.int64)


def first_equal(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Rows that equal an earlier one, in order, and for each of them the first row that it equals."""
    first, inverse = distinct_rows(np.asarray(keys, dtype=np.float64))
    twin = first[inverse]
    later = np.flatnonzero(twin != np.arange(len(keys)))
    return later.astype(np.int64), twin[later]


def closest_pair(points: Array) -> tuple[int, int, float]:
    """The two closest of two or more distinct points, and their distance."""
    width = points.shape[1]
    scale = float(np.abs(points).max()) or 1.0
    centred = points / scale
    centred = centred - centred.mean(axis=0)
    if width <= _TREE_WIDTH:
        from scipy.spatial import cKDTree

        distance, neighbour = cKDTree(centred).query(centred, k=2)
        # With ties a point may be listed as its own second neighbour's twin; take the partner that is not itself.
        own = np.arange(len(points))
        partner = np.where(neighbour[:, 1] == own, neighbour[:, 0], neighbour[:, 1])
        i = int(np.argmin(distance[:, 1]))
        pair = sorted((i, int(partner[i])))
    else:
        pair = list(_blocked(centred))
    return pair[0], pair[1], float(np.linalg.norm((points[pair[0]] - points[pair[1]]) / scale)) * scale


def _blocked(points: Array) -> tuple[int, int]:
    import torch

    count, width = points.shape
    _, axes = np.linalg.eigh(points.T @ points)
    along = points @ axes[:, -1]
    order = np.argsort(along, kind="stable")
    ordered, along = points[order], along[order]
    single = torch.from_numpy(ordered).float()
    square = (single.double() ** 2).sum(dim=1).float()
    # Float32 products of vectors of length R are off by less than this much of R^2.
    ones = torch.ones(count, 1)
    before = torch.cat([single, square[:, None], ones], dim=1)
    behind = torch.cat([-2 * single, ones, square[:, None]], dim=1).T.contiguous()
    slack = 4.0 * (width + 4) * 2.0**-24 * float(square.max())
    best, found = _measure(ordered, np.arange(count - 1), np.arange(1, count))
    starts = range(0, count, _BLOCK)
    # Neighbouring blocks first: a good pair early spares the rest.
    pairs = sorted(((a, b) for a in starts for b in starts if b >= a), key=lambda pair: pair[1] - pair[0])
    for a, b in pairs:
        last = min(a + _BLOCK, count) - 1
        if b > a and along[b] - along[last] > best:
            continue
        left, right = slice(a, a + _BLOCK), slice(b, b + _BLOCK)
        table = before[left] @ behind[:, right]  # squared distances
        if a == b:
            table[torch.tril(torch.ones_like(table, dtype=torch.bool))] = torch.inf
        if float(table.min()) > best**2 + slack:
            continue
        near = torch.nonzero(table <= best**2 + slack).numpy()
        if len(near) > _MOST_MEASURED // 4:  # many points closer than float32 resolves: start from float64
            exact = (ordered[left] ** 2).sum(1)[:, None] + (ordered[right] ** 2).sum(1)
            exact = exact - 2 * ordered[left] @ ordered[right].T
            if a == b:
                exact[np.tril_indices(len(exact))] = np.inf
            cut = max(float(exact.min()), 0.0) + 8 * (width + 4) * 2.0**-53 * float(square.max())
            near = np.argwhere(exact <= cut)
        for start in range(0, len(near), _MOST_MEASURED // width + 1):
            part = near[start : start + _MOST_MEASURED // width + 1]
            value, pair = _measure(ordered, a + part[:, 0], b + part[:, 1])
            if value < best:
                best, found = value, pair
    first, second = sorted((int(order[found[0]]), int(order[found[1]])))
    return first, second


def _measure(points: Array, left: IntArray, right: IntArray) -> tuple[float, tuple[int, int]]:
    distance = np.linalg.norm(points[left] - points[right], axis=1)
    k = int(np.argmin(distance))
    return float(distance[k]), (int(left[k]), int(right[k]))
