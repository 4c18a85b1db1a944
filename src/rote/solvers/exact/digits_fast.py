"""Exact evaluation of variant A, grouped: one trajectory of the fraction per group instead of one per sample.

It is allowed only for a network that is, weight by weight, the canonical one for the thresholds and codes that it
holds; anything else is left to the generic evaluator of the referee, which knows no construction.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.data._arrays import IntArray
from rote.solvers.exact.digits import DigitShape, assemble_digits
from rote.solvers.exact.network import Network

__all__ = ["evaluate_digits"]

_CHUNK = 1 << 16
_SMALL = 61


def evaluate_digits(network: Network, shape: DigitShape, keys: npt.ArrayLike) -> IntArray | None:
    """The outputs for integer keys from 0 to `shape.top`; None where this evaluator must not be used."""
    x = np.asarray(keys, dtype=np.int64)
    if shape.narrow:
        return None
    if len(x) and (int(x.min()) < 0 or int(x.max()) > shape.top):
        return None
    read = _read(network, shape)
    if read is None:
        return None
    thresholds, codes = read
    if not network.same(assemble_digits(thresholds, codes, shape)):
        return None
    table = _trajectories(codes, shape)
    if table is None:
        return None
    group = np.searchsorted(np.array(thresholds, dtype=np.int64), x, side="right")
    out = np.empty(len(x), dtype=np.int64)
    for start in range(0, len(x), _CHUNK):
        part = slice(start, start + _CHUNK)
        found = _labels(table, group[part], x[part], shape)
        if found is None:
            return None
        out[part] = found
    return out


def _read(network: Network, shape: DigitShape) -> tuple[list[int], list[int]] | None:
    """Thresholds from the first layer and codes from the third; None if there are none to be read."""
    if network.depth < 4:
        return None
    first, third = network.layers[0], network.layers[2]
    thresholds = [p for row, column, p, f in first.entries() if column < 0 and f == 0 and row > 0]
    total, codes = 0, [0]
    for row, column, p, f in third.entries():
        if row == 1:
            if f > shape.code_bits:
                return None
            total += p << (shape.code_bits - f)
            # The bias is the first code, which may be 0; every other weight jumps from one code to the next.
            if column < 0:
                codes = [total]
            else:
                codes.append(total)
    # In order only: thresholds that rise are what makes the steps a choice of one group.
    if len(codes) != len(thresholds) + 1 or any(a >= b for a, b in pairwise(thresholds)):
        return None
    if not all(0 <= code < 1 << shape.code_bits for code in codes):
        return None
    return thresholds, codes


def _trajectories(codes: list[int], shape: DigitShape) -> npt.NDArray[Any] | None:
    """Y_i of every group: the tents carried out bit by bit; None if a difference is no integer."""
    # In 64 bits where every difference of Y and a key fits, and in Python's integers otherwise.
    wide = max((shape.top + 2) * shape.unit, 1 << shape.first_bits).bit_length() + 2 > _SMALL
    table: npt.NDArray[Any] = np.empty((len(codes), shape.items), dtype=object if wide else np.int64)
    for j, code in enumerate(codes):
        s, left, total = code, shape.code_bits, 0
        for item in range(shape.items):
            bits = shape.first_bits if item == 0 else shape.bits
            before, width = s, left
            for _ in range(bits):
                # s = S / 2^left becomes min(S, 2^left - S) / 2^(left - 1).
                if s >> (left - 1):
                    s = (1 << left) - s
                left -= 1
            rest = before - s
            if rest & ((1 << (width - bits)) - 1):
                return None
            total += rest >> (width - bits)
            if not wide and total.bit_length() > _SMALL:
                return None
            table[j, item] = total
    return table


def _labels(table: npt.NDArray[Any], group: IntArray, x: IntArray, shape: DigitShape) -> IntArray | None:
    """The tooth of every item, added up; h must stay within what the label rides on."""
    c = shape.label_bits
    gate = (1 << (c + 1)) - 2
    key = shape.unit * (x.astype(table.dtype) - shape.low)
    # Twice the label, so that halves stay whole.
    double = np.zeros(len(x), dtype=table.dtype)
    least = most = 0
    for item in range(shape.items):
        e = table[group, item] - key
        least, most = min(least, int(e.min())), max(most, int(e.max()))
        # Where |e| is large all three parts cancel; they are formed only where they do not.
        near = np.flatnonzero((e > 0) & (e < gate + 2))
        if len(near):
            own = e[near]
            part = own - (1 << c) * np.maximum(own - gate, 0)
            double[near] += part
    if least < -shape.offset or most + shape.offset >= shape.gain or bool((double & 1).any()):
        return None
    label = double >> 1
    # A label that is no number of c bits would be unloaded as another one.
    return label.astype(np.int64) if c < _SMALL and bool((label >> c == 0).all()) else None
