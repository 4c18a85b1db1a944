"""The words of one row of the table: sparse linear systems over the integers modulo a power of two.

A key reads one word from each of `a` groups of columns, and what it must find is their sum modulo 2^q, in the bits that
its digit names. Bit by bit this is a linear system over GF(2), always with the same matrix: if its rows (one per key)
are independent, every right-hand side has a solution, and carries of lower bits are known constants by the time they
matter. The matrix is reduced once per digit, and each bit costs one product.

numba compiles the two inner loops where it is installed (extra "fast"); numpy does them otherwise, to the same words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Segment", "row_words"]

IntArray = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Segment:
    """Bits lo to hi (not included) of the words of a block: bits `shift` onwards of the symbols of one digit."""

    block: int
    lo: int
    hi: int
    digit: int
    shift: int


def row_words(
    columns: IntArray,
    digits: IntArray,
    symbols: IntArray,
    segments: tuple[Segment, ...],
    words: IntArray,
    *,
    compiled: bool = True,
) -> IntArray | None:
    """Words (blocks, w) in which every key finds its symbol; None if the keys of some digit are not independent.

    `columns` (n, a) are the words that each key reads, `words` are numbers to start from: what no key determines stays
    as it is. For a single row the compiler is not worth being loaded.
    """
    eliminate, substitute = _kernels() if compiled else (_eliminate_by_numpy, _substitute_by_numpy)
    found, width = words.copy(), words.shape[1]
    systems: dict[int, tuple[npt.NDArray[np.bool_], tuple[Bits, Bits, IntArray]]] = {}
    for digit in {segment.digit for segment in segments}:
        own = digits == digit
        if own.any():
            reduced = _reduced(columns[own], width, eliminate)
            if reduced is None:
                return None
            systems[digit] = own, reduced
    # Low bits first: what is above depends on their carries.
    for segment in sorted(segments, key=lambda one: (one.block, one.lo)):
        if segment.digit not in systems:
            continue
        own, form = systems[segment.digit]
        picked, values = columns[own], found[segment.block]
        below = (1 << segment.lo) - 1
        carry = (values[picked] & below).sum(axis=1) >> segment.lo
        size = segment.hi - segment.lo
        goal = (symbols[own] >> segment.shift & (1 << size) - 1) - carry
        lifted = _lift(form, picked, goal, values >> segment.lo, size, substitute)
        values &= ~(((1 << size) - 1) << segment.lo)
        values |= lifted << segment.lo
    return found


def _reduced(
    columns: IntArray, width: int, eliminate: Callable[..., int] | None = None
) -> tuple[Bits, Bits, IntArray] | None:
    """(E, T, pivots): the rows of E = T A are reduced, row i has a pivot that no later row has; None if dependent."""
    n = len(columns)
    if n > width:
        return None
    echelon = np.zeros((n, -(-width // 64)), dtype=np.uint64)
    rows = np.arange(n)
    for column in columns.T:
        np.bitwise_xor.at(echelon, (rows, column >> 6), np.uint64(1) << (column & 63).astype(np.uint64))
    steps = np.zeros((n, -(-n // 64)), dtype=np.uint64)
    steps[rows, rows >> 6] = np.uint64(1) << (rows & 63).astype(np.uint64)
    pivots = np.full(n, -1, dtype=np.int64)
    rank = int((eliminate or _kernels()[0])(echelon, steps, pivots))
    return (echelon, steps, pivots) if rank == n else None


def _lift(
    form: tuple[Bits, Bits, IntArray],
    columns: IntArray,
    goal: IntArray,
    start: IntArray,
    size: int,
    substitute: Callable[..., None],
) -> IntArray:
    """x of `size` bits with A x = goal modulo 2^size, equal to `start` wherever no pivot is."""
    echelon, steps, pivots = form
    x = start & (1 << size) - 1
    x[pivots] = 0
    rest = goal.copy()
    for bit in range(size):
        plane = x >> bit & 1
        known = np.zeros(echelon.shape[1], dtype=np.uint64)
        ones = np.flatnonzero(plane)
        np.bitwise_or.at(known, ones >> 6, np.uint64(1) << (ones & 63).astype(np.uint64))
        wanted = np.zeros(steps.shape[1], dtype=np.uint64)
        odd = np.flatnonzero(rest & 1)
        np.bitwise_or.at(wanted, odd >> 6, np.uint64(1) << (odd & 63).astype(np.uint64))
        solved = np.zeros(len(pivots), dtype=np.int64)
        substitute(echelon, steps, pivots, known, wanted, solved)
        plane[pivots] = solved
        x[pivots] |= solved << bit
        rest = (rest - plane[columns].sum(axis=1)) >> 1
    return x


def _eliminate(echelon: Any, steps: Any, pivots: Any) -> Any:
    """Gaussian elimination over GF(2), row by row; the number of independent rows before the first dependent one."""
    n, words = echelon.shape
    for i in range(n):
        for j in range(i):
            pivot = pivots[j]
            if (echelon[i, pivot >> 6] >> np.uint64(pivot & 63)) & np.uint64(1):
                for k in range(words):
                    echelon[i, k] ^= echelon[j, k]
                for k in range(steps.shape[1]):
                    steps[i, k] ^= steps[j, k]
        for k in range(words):
            if echelon[i, k]:
                low = 0
                while not (echelon[i, k] >> np.uint64(low)) & np.uint64(1):
                    low += 1
                pivots[i] = 64 * k + low
                break
        if pivots[i] < 0:
            return i
    return n


def _eliminate_by_numpy(echelon: Bits, steps: Bits, pivots: IntArray) -> int:
    """The same: every pivot is taken out of all later rows at once."""
    n = len(echelon)
    for i in range(n):
        filled = np.flatnonzero(echelon[i])
        if not len(filled):
            return i
        k = int(filled[0])
        value = int(echelon[i, k])
        low = (value & -value).bit_length() - 1
        pivots[i] = 64 * k + low
        hit = i + 1 + np.flatnonzero(echelon[i + 1 :, k] >> np.uint64(low) & np.uint64(1))
        echelon[hit] ^= echelon[i]
        steps[hit] ^= steps[i]
    return n


def _substitute(echelon: Any, steps: Any, pivots: Any, known: Any, wanted: Any, solved: Any) -> None:
    """One bit of every pivot, from the last row to the first; `known` holds the bits of the other columns."""
    n, words = echelon.shape
    for i in range(n - 1, -1, -1):
        total = np.uint64(0)
        for k in range(steps.shape[1]):
            total ^= steps[i, k] & wanted[k]
        for k in range(words):
            total ^= echelon[i, k] & known[k]
        for shift in (32, 16, 8, 4, 2, 1):
            total ^= total >> np.uint64(shift)
        if total & np.uint64(1):
            solved[i] = 1
            known[pivots[i] >> 6] |= np.uint64(1) << np.uint64(pivots[i] & 63)


def _substitute_by_numpy(
    echelon: Bits, steps: Bits, pivots: IntArray, known: Bits, wanted: Bits, solved: IntArray
) -> None:
    right = np.bitwise_count(np.bitwise_xor.reduce(steps & wanted, axis=1)) & 1
    for i in range(len(pivots) - 1, -1, -1):
        left = np.bitwise_count(np.bitwise_xor.reduce(echelon[i] & known)) & 1
        if left ^ right[i]:
            solved[i] = 1
            known[pivots[i] >> 6] |= np.uint64(1) << np.uint64(pivots[i] & 63)


@cache
def _kernels() -> tuple[Callable[..., int], Callable[..., None]]:
    try:
        from numba import njit
    except ImportError:
        return _eliminate_by_numpy, _substitute_by_numpy
    compiled = njit(nogil=True, cache=True)
    return compiled(_eliminate), compiled(_substitute)
