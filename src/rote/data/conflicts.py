"""Equal contexts: which facts repeat one another, and which contradict one another.

Two facts are *duplicates* when context, target and weight agree, and *clash* when only the contexts agree. Everything
here works on whole columns: a row of token ids is folded into one exact integer code (never a lossy hash), so that
equal codes mean equal rows, and one stable sort then brings equal rows together in file order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rote.data._arrays import FloatArray, IntArray
from rote.data.reading import OnConflict
from rote.errors import ConflictError

__all__ = ["Clash", "Resolution", "conflict_error", "find_clashes", "resolve"]

_CODE_LIMIT = 2**62


@dataclass(frozen=True)
class Clash:
    """Two facts (0-based, first < second) with one context and different targets or weights."""

    first: int
    second: int


@dataclass(frozen=True)
class Resolution:
    """Which facts stay (ascending indices), and how many were dropped for which reason."""

    keep: IntArray
    n_duplicates: int
    n_conflicts: int
    clashes: tuple[Clash, ...]


def row_codes(rows: IntArray, n_values: int) -> IntArray:
    """One integer per row, equal exactly where rows are equal. Values must lie in [0, n_values)."""
    n_values = max(n_values, 1)
    codes: IntArray = np.zeros(len(rows), dtype=np.int64)
    size = 1
    for column in rows.T:
        if size * n_values >= _CODE_LIMIT:
            codes, size = _compress(codes)
        codes = codes * n_values + column
        size *= n_values
    return codes


def _compress(codes: IntArray) -> tuple[IntArray, int]:
    """The same partition with codes 0, 1, 2, ..., and how many there are."""
    distinct, inverse = np.unique(codes, return_inverse=True)
    return inverse.astype(np.int64, copy=False).reshape(-1), max(len(distinct), 1)


def _join(codes: IntArray, column: IntArray) -> IntArray:
    """Codes of the pairs (code, value), for any integers."""
    left, n_left = _compress(codes)
    right, n_right = _compress(column)
    if n_left * n_right >= _CODE_LIMIT:  # needs 2**31 distinct rows: out of reach of memory, but cheap to keep exact
        raise OverflowError("more distinct rows than can be coded")
    return left * n_right + right


def _runs(codes: IntArray) -> tuple[IntArray, IntArray]:
    """A stable order that brings equal codes together, and the start of every run in that order."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return order, starts


def n_repeats(rows: IntArray, n_values: int) -> int:
    """How many rows repeat an earlier row."""
    return _n_repeats(row_codes(rows, n_values))


def _n_repeats(codes: IntArray) -> int:
    ordered = np.sort(codes)
    return int(np.count_nonzero(ordered[1:] == ordered[:-1]))


def first_positions(codes: IntArray) -> IntArray:
    """Ascending positions of the first appearance of every code."""
    order, starts = _runs(codes)
    return np.sort(order[starts])


def resolve(
    contexts: IntArray, targets: IntArray, weights: FloatArray | None, n_values: int, keep: OnConflict
) -> Resolution:
    """Drop repeats; of clashing facts keep the first or the last one (both choices count every clash).

    With keep="error" nothing is settled: `keep` in the answer then holds the distinct facts, clashing ones included,
    and the caller refuses when `n_conflicts` is not zero.
    """
    codes = row_codes(contexts, n_values)
    if not _n_repeats(codes):  # the usual case, decided by one quick sort
        return Resolution(np.arange(len(codes)), 0, 0, ())
    pairs = _join(codes, targets)
    if weights is not None:
        pairs = _join(pairs, (weights + 0.0).view(np.int64))  # + 0.0 makes -0.0 and 0.0 one value
    distinct = first_positions(pairs)
    n_duplicates = len(codes) - len(distinct)
    order, starts = _runs(codes[distinct])
    n_conflicts = len(distinct) - len(starts)
    clashes = _first_clashes(distinct, order, starts) if n_conflicts else ()
    kept = distinct
    if keep == "first":
        kept = np.sort(distinct[order[starts]])
    elif keep == "last":
        order, starts = _runs(codes)
        ends = np.append(starts[1:], len(codes)) - 1
        last = pairs[order[ends]]  # the pair that wins; it stands where it first stood
        kept = distinct[np.isin(pairs[distinct], last)]
    return Resolution(kept, n_duplicates, n_conflicts, clashes)


def _first_clashes(distinct: IntArray, order: IntArray, starts: IntArray, limit: int = 3) -> tuple[Clash, ...]:
    """The clashes whose second fact comes earliest, each told against the first fact of the same context."""
    leader = np.repeat(order[starts], np.diff(np.append(starts, len(order))))
    first, second = distinct[leader], distinct[order]
    off = first != second
    first, second = first[off], second[off]
    early = np.argsort(second, kind="stable")[:limit]
    return tuple(Clash(int(first[k]), int(second[k])) for k in early)


def find_clashes(
    contexts: Sequence[Sequence[int]] | IntArray, targets: Sequence[int] | IntArray, *, limit: int = 3
) -> tuple[Clash, ...]:
    """The first few pairs of facts with the same context and different targets; empty when there are none."""
    rows = np.asarray(contexts, dtype=np.int64)
    goals = np.asarray(targets, dtype=np.int64)
    if rows.size == 0:
        return ()
    _, rows_small = np.unique(rows, return_inverse=True)
    rows_small = rows_small.reshape(rows.shape).astype(np.int64)
    codes = row_codes(rows_small, int(rows_small.max()) + 1)
    distinct = first_positions(_join(codes, goals))
    order, starts = _runs(codes[distinct])
    return _first_clashes(distinct, order, starts, limit)


def conflict_error(
    resolution: Resolution, text: Callable[[int], str], place: Callable[[int], str], weights: FloatArray | None
) -> ConflictError:
    """The error for contradictory facts: the first few, the count, the remedy. `text`, `place`: index -> words."""

    def told(i: int) -> str:
        return f"{place(i)}: {text(i)}" + ("" if weights is None else f" (weight {weights[i]:g})")

    clashes, count = resolution.clashes, resolution.n_conflicts
    shown = "; ".join(f"{told(c.first)} against {told(c.second)}" for c in clashes)
    more = f"; and {count - len(clashes)} more" if count > len(clashes) else ""
    noun = "fact contradicts" if count == 1 else "facts contradict"
    return ConflictError(
        f"equal contexts need equal targets, but {count} {noun} an earlier one: {shown}{more}. Correct them, settle "
        "them with on_conflict 'first' or 'last', or read the table as kind 'distributions', where several tokens may "
        "follow a context."
    )
