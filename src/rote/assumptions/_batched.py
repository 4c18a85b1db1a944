"""Cholesky factorisations of thousands of small submatrices of one Gram matrix at once, compiled by numba.

LAPACK factorises one matrix after the other; here 64 of them stand side by side, so that every operation is one on
vectors, and the entries are looked up in place. Without numba (extra "fast") there is no such road, and `available`
says so; verdicts are the same either way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["available", "positive"]

_ONE = threading.Lock()
"""Not every threading layer of numba bears two callers at a time."""
_LANES = 64
_MOST_SIZE = 256
"""Larger matrices fall out of the caches, and LAPACK's blocks win."""
_LEAST_WORK = 2e8
"""Operations below which compiling, or loading what was compiled before, costs more than it saves."""


def available(size: int, count: int) -> bool:
    """Whether this road is open, and pays, for `count` matrices of this size."""
    if size > _MOST_SIZE or count * (size**3 / 3 + 20 * size**2) < _LEAST_WORK:
        return False
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def positive(gram: npt.NDArray[Any], subsets: npt.NDArray[np.int64], shift: float) -> npt.NDArray[np.bool_]:
    """Which of the submatrices gram[S, S] - shift I have a Cholesky factor, in the number format of `gram`."""
    import torch

    out = np.empty(len(subsets), dtype=np.bool_)
    threads = torch.get_num_threads()
    with _ONE:
        try:
            _kernel()(gram, np.ascontiguousarray(subsets, dtype=np.int32), gram.dtype.type(shift), out)
        finally:
            # numba's OpenMP layer sets the number of threads for the whole process, and torch's sums depend on it.
            torch.set_num_threads(threads)
    return out


@cache
def _kernel() -> Callable[..., None]:
    from numba import njit, prange

    def factorise(gram: Any, subsets: Any, shift: Any, out: Any) -> None:
        count, n = subsets.shape
        for block in prange((count + _LANES - 1) // _LANES):
            first = block * _LANES
            index = np.empty((n, _LANES), np.int64)
            factor = np.empty((n, n, _LANES), gram.dtype)
            row = np.empty((n, _LANES), gram.dtype)
            inverse = np.empty((n, _LANES), gram.dtype)
            scaled = np.empty(_LANES, gram.dtype)
            least = np.ones(_LANES, gram.dtype)
            for lane in range(_LANES):
                for i in range(n):
                    index[i, lane] = subsets[min(first + lane, count - 1), i]
            for i in range(n):
                for j in range(i + 1):
                    for lane in range(_LANES):
                        row[j, lane] = gram[index[i, lane], index[j, lane]]
                for lane in range(_LANES):
                    row[i, lane] -= shift
                for k in range(i):
                    for lane in range(_LANES):
                        scaled[lane] = row[k, lane] * inverse[k, lane]
                    factor[k, i] = scaled
                    for j in range(k + 1, i + 1):
                        for lane in range(_LANES):
                            row[j, lane] -= scaled[lane] * factor[k, j, lane]
                # A pivot that is not positive is remembered; what follows in its lane may be no number, and changes
                # nothing any more.
                for lane in range(_LANES):
                    least[lane] = min(least[lane], row[i, lane])
                    inverse[i, lane] = 1 / np.sqrt(row[i, lane])
            for lane in range(min(_LANES, count - first)):
                out[first + lane] = least[lane] > 0

    compiled: Callable[..., None] = njit(parallel=True, cache=True, nogil=True, error_model="numpy")(factorise)
    return compiled
