"""A filter of the contexts of a table, small enough to lie beside a model that cannot tell what it was never told.

It says of a context of token ids that it is none of the table, or that it may be one. The first is always right. Of
contexts that are none of the table about 1 in 120 gets the second, at ten bits for each that is (a Bloom filter).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rote.data._arrays import IntArray
from rote.errors import CheckpointError

if TYPE_CHECKING:
    from rote.data.token_table import TokenTable

__all__ = ["FILE", "KeyFilter"]

FILE = "keys.filter"
BITS = 10
"""Of the filter, for each context."""
PROBES = 7
"""The best number for so many bits."""
TRIED = 10_000
"""Contexts of each kind, random ones and near misses, that it is tried on."""
_FEWEST_TRIED, _MOST_TOKENS = 100, 2_000_000
"""Where contexts are long, fewer are tried: as many as have so many tokens together, but not too few."""
_SEED = 0x6B657973
"""Unlike the seeds that people draw tables with, whose contexts would come again."""
_HEADER = struct.Struct("<8sQ")
_MAGIC = b"rotekeys"
_ROWS = 1 << 16

_Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class KeyFilter:
    """Bits that are set by every context of a table."""

    bits: npt.NDArray[np.uint8] = field(repr=False)
    """Eight to a byte."""

    @classmethod
    def of(cls, contexts: IntArray) -> KeyFilter:
        """The filter of contexts (T, S) of token ids."""
        size = -(-max(64, BITS * len(contexts)) // 8) * 8
        flags = np.zeros(size, dtype=bool)
        for start in range(0, len(contexts), _ROWS):
            flags[_places(contexts[start : start + _ROWS], size)] = True
        return cls(np.packbits(flags))

    def has(self, contexts: IntArray) -> npt.NDArray[np.bool_]:
        """Whether each of these contexts may be one of the table; where it is not said, it is none."""
        rows = np.asarray(contexts, dtype=np.int64)
        places = _places(rows, 8 * len(self.bits))
        return np.asarray((self.bits[places >> 3] >> (7 - (places & 7)) & 1).all(axis=1), dtype=np.bool_)

    def to_bytes(self) -> bytes:
        return _HEADER.pack(_MAGIC, 8 * len(self.bits)) + self.bits.tobytes()

    @classmethod
    def read(cls, folder: Path) -> KeyFilter | None:
        """The filter of a model directory; None where there is none."""
        path = folder / FILE
        if not path.is_file():
            return None
        content = path.read_bytes()
        magic, size = _HEADER.unpack(content[: _HEADER.size]) if len(content) > _HEADER.size else (b"", 0)
        if magic != _MAGIC or size != 8 * (len(content) - _HEADER.size):
            raise CheckpointError(f"{path} is no filter of keys; it was edited or truncated, build the model again.")
        return cls(np.frombuffer(content, dtype=np.uint8, offset=_HEADER.size))

    def measured(self, table: TokenTable) -> dict[str, Any]:
        """What it says of the contexts of a table, and of contexts that are none: the same ones on every machine."""
        from rote.data.unknown import unknown_contexts

        tried = max(_FEWEST_TRIED, min(TRIED, _MOST_TOKENS // table.context))
        others = unknown_contexts(table, tried, np.random.default_rng(_SEED)).all
        held = sum(int(self.has(table.contexts[i : i + _ROWS]).sum()) for i in range(0, table.n_facts, _ROWS))
        return {
            "bits_per_fact": round(8 * len(self.bits) / table.n_facts, 3),
            "facts_held": held,
            "others_tried": len(others),
            "others_told": int(np.count_nonzero(~self.has(others))) if len(others) else 0,
        }


def _places(rows: IntArray, size: int) -> IntArray:
    """The bits (B, PROBES) of each context."""
    first = np.full(len(rows), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in rows.T:
        first = _mixed(first ^ column.astype(np.uint64))
    second = _mixed(first) | np.uint64(1)
    steps = np.arange(PROBES, dtype=np.uint64)
    return ((first[:, None] + steps * second[:, None]) % np.uint64(size)).astype(np.int64)


def _mixed(words: _Words) -> _Words:
    """The finaliser of splitmix64, after a step: a bijection of 64 bits that leaves no pattern."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return words ^ words >> np.uint64(31)
