"""A hashed table of given keys and labels, from codes to matrices."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rote.data.telling import telling_positions
from rote.errors import FactsLost, RoteError
from rote.solvers.cluster import Call, Failure
from rote.solvers.hashed.hashing import Hash, drawn_hash, hashed_keys, positions_to_read
from rote.solvers.hashed.rows import Keys, Row, Subtree, fewest_rows, solved_rows, subtrees
from rote.solvers.record import Progress, quiet

if TYPE_CHECKING:
    from rote.solvers.cluster import Cluster
    from rote.solvers.hashed.layout import Layout

__all__ = ["HashedTable", "Solve", "by_cluster", "by_threads", "memorise"]

IntArray = npt.NDArray[np.int64]
Solved = Generator[list[Row], None, None]
Solve = Callable[["Layout", list[Subtree], int], Solved]
"""solve(layout, parts, seed) -> the rows of every part, in order, as they come; closed by whoever asks."""

_PARTS = 64
_AT_ONCE = 8192
_FEW = 2000
_COUNTED = 100_000
"""Keys up to which rows are counted before they are solved, in small parts: of few keys, many seeds are tried."""
_SEEDS, _TIGHT_SEEDS, _KEYS_TRIED = 3, (12, 32), 320_000
"""Seeds that are tried; more where a layout has little room, most of them for tables of few keys."""


@dataclass(frozen=True)
class HashedTable:
    """Codes and rows that hold all keys."""

    hashing: Hash
    rows: list[Row]
    seeds_tried: int


def by_threads(layout: Layout, parts: list[Subtree], seed: int) -> Solved:
    """Every part by itself, on all cores: the compiled loops leave the interpreter alone. Few keys are solved sooner
    than threads are started."""
    if sum(len(part.keys) for part in parts) <= _FEW:
        yield from (solved_rows(part, layout, seed, layout.rows) for part in parts)
        return
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(solved_rows, part, layout, seed, layout.rows) for part in parts]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def by_cluster(cluster: Cluster) -> Solve:
    """Every part by itself, on the workers of a cluster; rows are handed on in the order of the parts."""

    def solve(layout: Layout, parts: list[Subtree], seed: int) -> Solved:
        waiting: dict[int, list[Row]] = {}
        first = 0
        calls = cluster.results(len(parts), lambda i: Call(solved_rows, (parts[i], layout, seed, layout.rows)))
        with contextlib.closing(calls):
            for index, rows in calls:
                if isinstance(rows, Failure):
                    if isinstance(rows.error, FactsLost):
                        raise rows.error
                    raise RoteError(f"the cluster did not solve some rows: {rows.reason}.")
                waiting[index] = rows
                while first in waiting:
                    yield waiting.pop(first)
                    first += 1

    return solve


def memorise(
    keys: IntArray,
    labels: IntArray,
    layout: Layout,
    rng: np.random.Generator,
    *,
    solve: Solve = by_threads,
    progress: Progress = quiet,
) -> HashedTable:
    """Rows in which every key (N, S) finds its label; FactsLost if this layout has no room for them.

    Keys are ids below `layout.vocab`, labels below `layout.classes`. A few seeds are tried.
    """
    if layout.classes == 1 and not layout.unknown:
        keys, labels = keys[:1], labels[:1]
    few, many = _TIGHT_SEEDS
    count = max(few, min(many, _KEYS_TRIED // len(keys))) if layout.tight else _SEEDS
    seeds = [int(seed) for seed in rng.integers(0, 1 << 62, count)]
    last = keys.shape[1] - 1
    # All positions of a short context are read, whichever tell keys apart.
    telling = np.arange(0)
    if layout.positions <= last:
        telling = telling_positions(keys, first=last if layout.asking else None)
    reason: FactsLost | None = None
    for tried, seed in enumerate(seeds, 1):
        try:
            hashing, rows = _with_seed(keys, labels, layout, telling, seed, solve, progress)
        except FactsLost as error:
            # Its traceback would keep all that was tried in memory.
            reason = error.with_traceback(None)
            continue
        return HashedTable(hashing, rows, tried)
    assert reason is not None, "there is at least one seed"
    raise reason


def _with_seed(
    keys: IntArray, labels: IntArray, layout: Layout, telling: IntArray, seed: int, solve: Solve, progress: Progress
) -> tuple[Hash, list[Row]]:
    draw = np.random.default_rng(seed)
    progress("hash the keys", 0, 0, None)
    positions = positions_to_read(keys.shape[1], layout.positions, telling, draw)
    if positions is None:
        raise FactsLost(f"cannot tell all keys apart by {layout.positions:,} of their positions")
    hashing = drawn_hash(layout, positions, draw)
    counted = len(keys) <= _COUNTED
    parts = subtrees(_hashed(hashing, keys, labels), layout, max(1 if counted else 4096, len(keys) // _PARTS))
    # Rows that the parts from each on take at least.
    fewest = (fewest_rows(part, layout) if counted else 1 for part in reversed(parts))
    least = [*itertools.accumulate(fewest, initial=0)][::-1]
    rows: list[Row] = []
    done = 0
    if least[0] > layout.rows:
        raise FactsLost(f"needs more than {layout.rows:,} rows")
    # Closed here: while the interpreter clears it away, which takes as long as its threads do, ctrl-C would be lost.
    with contextlib.closing(solve(layout, parts, seed)) as found:
        for part, solved, more in zip(parts, found, least[1:], strict=True):
            rows += solved
            done += len(part.keys)
            # A seed may fail at any row, so that nobody knows how long it takes.
            progress("solve rows", 0, 0, done)
            if len(rows) + more > layout.rows or (not counted and len(rows) > _expected(layout, done, len(keys))):
                raise FactsLost(f"needs more than {layout.rows:,} rows")
    return hashing, rows


def _hashed(hashing: Hash, keys: IntArray, labels: IntArray) -> Keys:
    """What is known of every key, some thousand keys at a time: bits of few keys stay in the processor's cache."""
    layout, count = hashing.layout, len(keys)
    bits = np.empty((count, len(hashing.reads)), dtype=np.uint8)
    columns = np.empty((count, len(layout.groups)), dtype=np.int32)
    choices, symbols = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    for start in range(0, count, _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        hashed = hashed_keys(hashing, keys[some])
        bits[some], columns[some], choices[some] = hashed.bits, hashed.columns(layout), hashed.choices(layout)
        symbols[some] = labels[some] | hashed.fingerprints << layout.label_bits
    return Keys(bits, columns, choices, symbols)


def _expected(layout: Layout, done: int, total: int) -> float:
    """Rows after some of the keys beyond which all of them will not fit; generous while few are done."""
    share = done / total
    return layout.rows * min(1.0, share * 1.02 + 0.03)
