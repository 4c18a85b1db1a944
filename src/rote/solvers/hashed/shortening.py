"""Which tokens of a context need not be read: a rule found in the facts, and how a network follows it.

Where all facts with the same first tokens have the same label, no further token matters. Tokens are taken in an order
that makes that happen soon. Up to a depth all of them are read; those beyond it are blank, unless the ones before are
among the prefixes that are listed, one unit each: the openers. There may be several such depths. So many facts become
one key, and exceptions stay keys of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from rote.solvers.hashed.hashing import Hash

__all__ = ["Shortening", "opening_layers", "shortenings"]

IntArray = npt.NDArray[np.int64]

MOST_TOKENS = 8
"""Longer contexts are not looked at: there are too many ways to order their tokens."""
MOST_DEPTHS = 2
MOST_OPENERS = 1024
WORTH = 0.8
"""Keys that may be left, as a share of the facts; a rule that saves less is not worth its layers."""


@dataclass(frozen=True)
class Shortening:
    """Contexts as they are read."""

    keys: IntArray
    """Every fact's context (N, S), with the blank in place of what is not read."""
    count: int
    """How many different ones there are."""
    order: tuple[int, ...]
    """The positions of a context, those first that tell most."""
    prefixes: tuple[IntArray, ...]
    """For every depth d, the tokens (n, d) at the first d positions of the order behind which more is read."""

    @property
    def openers(self) -> int:
        return sum(map(len, self.prefixes))

    @property
    def depths(self) -> tuple[int, ...]:
        return tuple(prefixes.shape[1] for prefixes in self.prefixes)


def shortenings(keys: IntArray, labels: IntArray, vocab: int) -> list[Shortening]:
    """Rules that leave fewer keys than there are facts, by some two or less depths; the blank is the id `vocab`."""
    n, length = keys.shape
    if not 2 <= length <= MOST_TOKENS:
        return []
    order, levels = _ordered(keys, labels, vocab)
    # (group of every fact, whether its facts have several labels) at depths 1, 2, ...
    fitting = [d for d in range(1, len(levels) + 1) if _openers(levels[d - 1]) <= MOST_OPENERS]
    found = []
    for many in range(1, MOST_DEPTHS + 1):
        for depths in itertools.combinations(fitting, many):
            rule = _shortened(keys, order, depths, [levels[d - 1] for d in depths], vocab)
            if rule.count <= WORTH * n:
                found.append(rule)
    return found


def _ordered(keys: IntArray, labels: IntArray, vocab: int) -> tuple[tuple[int, ...], list[tuple[IntArray, IntArray]]]:
    """Positions, each the one that leaves fewest exceptions, and the groups of facts behind each."""
    n, length = keys.shape
    groups, left = np.zeros(n, dtype=np.int64), list(range(length))
    order: list[int] = []
    levels: list[tuple[IntArray, IntArray]] = []
    while len(left) > 1:
        tried = []
        for position in left:
            _, finer = np.unique(groups * vocab + keys[:, position], return_inverse=True)
            tried.append((_exceptions(finer, labels), position, finer))
        _, position, groups = min(tried, key=lambda one: one[:2])
        order.append(position)
        left.remove(position)
        levels.append((groups, _mixed(groups, labels)))
    return (*order, *left), levels


def _exceptions(groups: IntArray, labels: IntArray) -> int:
    """Facts whose label is not the one that most facts of their group have."""
    classes = int(labels.max()) + 1
    pairs, counts = np.unique(groups * classes + labels, return_counts=True)
    most = np.zeros(int(groups.max()) + 1, dtype=np.int64)
    np.maximum.at(most, pairs // classes, counts)
    return len(labels) - int(most.sum())


def _mixed(groups: IntArray, labels: IntArray) -> IntArray:
    """Whether the facts of a group have several labels, for every group."""
    low = np.full(int(groups.max()) + 1, np.iinfo(np.int64).max)
    high = np.full(len(low), -1)
    np.minimum.at(low, groups, labels)
    np.maximum.at(high, groups, labels)
    return (low < high).astype(np.int64)


def _openers(level: tuple[IntArray, IntArray]) -> int:
    return max(1, int(level[1].sum()))


def _shortened(
    keys: IntArray, order: tuple[int, ...], depths: tuple[int, ...], levels: list[tuple[IntArray, IntArray]], blank: int
) -> Shortening:
    read, prefixes, shown = keys.copy(), [], np.arange(len(keys))
    for depth, (groups, mixed) in zip(depths, levels, strict=True):
        opened = mixed.astype(bool)
        if not opened.any():
            # One that is not needed, behind those of lesser depths: every depth has an opener.
            opened[groups[shown[0]]] = True
        _, first = np.unique(groups, return_index=True)
        prefixes.append(keys[first[opened]][:, list(order[:depth])])
        shown, hidden = np.flatnonzero(opened[groups]), np.flatnonzero(~opened[groups])
        read[hidden[:, None], list(order[depth:])] = blank
    return Shortening(read, len(np.unique(read, axis=0)), order, tuple(prefixes))


def opening_layers(hashing: Hash, rule: Shortening) -> Iterator[npt.NDArray[np.float64]]:
    """Two layers: openers beside all bits of the codes, then the bits, 0 where no opener lets them pass."""
    layout, size, wide = hashing.layout, hashing.layout.head_bits, hashing.layout.inputs
    first = np.zeros((rule.openers + wide, wide))
    second = np.zeros((wide, rule.openers + wide))
    first[rule.openers :] = np.eye(wide)
    second[:, rule.openers :] = np.eye(wide)
    unit = 0
    ends = (*rule.depths[1:], layout.context)
    for prefixes, depth, end in zip(rule.prefixes, rule.depths, ends, strict=True):
        units = slice(unit, unit + len(prefixes))
        for tokens, position in zip(prefixes.T, rule.order[:depth], strict=True):
            bits = hashing.codes[tokens][:, hashing.copied[position]].astype(np.float64)
            first[units, position * size : (position + 1) * size] = 2.0 * bits - 1.0
            first[units, -1] -= bits.sum(axis=1)
        first[units, -1] += 1.0
        for position in rule.order[depth:end]:
            second[position * size : (position + 1) * size, units] = 1.0
            second[position * size : (position + 1) * size, -1] -= 1.0
        unit += len(prefixes)
    yield first
    yield second
