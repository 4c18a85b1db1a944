"""Variant A: a memoriser on the line that stores keys and labels as digits (after Kajitsuka, Sato 2025).

Statement: for distinct integer keys x_1 < ... < x_n in [0, top] with labels in [0, C) there is an affine-ReLU network
           with the label as its value at every key, and 0 at every other integer of [0, top].
Notation:  c = ceil(log2 C), tent(s) = relu(2s) - relu(4s - 2).
Source:    arXiv 2409.17677; the extraction of digits goes back to Vardi, Yehudai, Shamir 2022.

The keys are cut into m groups of k neighbours. Group j is one long binary fraction s = z_j, whose digits are the
differences of Y_i = (x_i - x_1) 2^(c+1) + 2 y_i, all even. The shift lemma: if s = (D + r) / 2^q with D even and
0 <= r <= 1, then q tents leave exactly r, because tent^q rises on cells of even index; so D = 2^q s - r is linear in
what the network has at hand, and no sharp threshold is needed.

    step       l_j = relu(t_j - x), st_j = relu(1 - l_j) is [x >= t_j] for integers; s = z_0 + sum (z_j - z_{j-1}) st_j
    item i     E = h - s after q tents is Y_i - 2^(c+1) x up to a constant, and its tooth
               g(e) = relu(e)/2 - 2^(c-1) relu(e - M) + (2^c - 1)/2 relu(e - M - 2), M = 2^(c+1) - 2,
               is y_i if x = x_i, and 0 at every other integer, where e <= -2 or e >= M + 2

    weights    5 (m - 1) + k (6 q + 14) and a little, at most P + 1 bits each, P = all digits of a group
    depth      P and a few layers; width max(m, 7) or, with the narrow selector (7 weights a group), 7

Differs:   fewer weights than the usual count 8 (m - 1) + k (7 q + 17): the step needs one threshold neuron, the first
           digit of a group is absolute, E is formed once, and labels ride on h, multiplied by `gain`, until the end
           (`merged`). Gaps of 2^cap and more are bridged by keys with label 0, which keeps digits short for any data:
           then q <= cap + c + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.data._arrays import IntArray
from rote.solvers.exact.network import ONE, Assembler, Network, Weight, add, scaled

__all__ = ["DigitNetwork", "DigitShape", "assemble_digits", "digit_params", "label_bits", "memorise_digits"]

Named = dict[str, Weight]

_SMALL = 62
S: Named = {"a1": 1, "a2": -1}
"""The fraction, while it is the difference of two neurons."""


@dataclass(frozen=True)
class DigitShape:
    """The numbers that fix the network, apart from thresholds and codes."""

    items: int
    """k: digits in a group."""
    first_bits: int
    bits: int
    """q: bits of every digit but the first."""
    label_bits: int
    top: int
    """The largest input."""
    low: int
    """The smallest key."""
    merged: bool
    narrow: bool = False

    @property
    def code_bits(self) -> int:
        """P: bits of a group's fraction."""
        return self.first_bits + (self.items - 1) * self.bits

    @property
    def unit(self) -> int:
        """What one step of the key weighs in Y."""
        return 1 << (self.label_bits + 1)

    @property
    def offset(self) -> int:
        """Keeps h from being cut off by ReLU: Y - unit (x - low) >= -unit (top - low)."""
        return self.unit * max(0, self.top - self.low)

    @property
    def gain(self) -> int:
        """What a label is multiplied by while it rides on h: above anything that h can be, and a power of two."""
        most = self.offset + self.unit * (self.low + 1) + (1 << (self.first_bits + 1)) + self.items * (1 << self.bits)
        return 1 << (most + 2 * self.unit).bit_length()

    def to_dict(self) -> dict[str, int | bool]:
        return asdict(self)


@dataclass(frozen=True)
class DigitNetwork:
    """The network, and the shape it has."""

    network: Network
    shape: DigitShape
    n_groups: int


def label_bits(n_labels: int) -> int:
    """c = ceil(log2 C), at least 1."""
    return max(1, (n_labels - 1).bit_length())


def digit_params(n_items: int, shape: DigitShape) -> int:
    """The number of weights for n_items keys (bridging ones included), with biases that happen to be 0."""
    k, q, q1, c = shape.items, shape.bits, shape.first_bits, shape.label_bits
    groups = -(-n_items // k)
    select = (7 if shape.narrow else 5) * (groups - 1) + 4
    loop = 6 + 6 * (q1 - 1 + (k - 1) * (q - 1)) + 11 * (k - 1) + 9 * k
    if shape.merged:
        return select + loop + 6 + 2 + (6 if c == 1 else 14 * c - 10)
    return select + loop + 3 + (k - 1) * q + 1


def memorise_digits(
    keys: npt.ArrayLike,
    labels: npt.ArrayLike,
    n_labels: int,
    *,
    top: int | None = None,
    items: int | None = None,
    cap: int | None = None,
    narrow: bool = False,
    merged: bool | None = None,
) -> DigitNetwork:
    """The network for distinct keys; what is not fixed of the shape is chosen so that the network is small."""
    x, y = np.asarray(keys, dtype=np.int64), np.asarray(labels, dtype=np.int64)
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    top = int(x[-1]) if top is None else top
    best: tuple[int, int, DigitShape] | None = None
    for limit in _caps(x) if cap is None else [cap]:
        n_items = len(x) + _n_bridges(x, limit)
        for shape in _shapes(x, n_items, limit, label_bits(n_labels), top, items, narrow):
            weights = digit_params(n_items, shape)
            if merged in (None, shape.merged) and (best is None or weights < best[0]):
                best = (weights, limit, shape)
    assert best is not None, "there is always a shape"
    _, chosen, shape = best
    x, y = _bridged(x, y, chosen)
    shape, digits = _digits(x, y, shape)
    codes = _codes(digits, shape)
    return DigitNetwork(assemble_digits(x[shape.items :: shape.items].tolist(), codes, shape), shape, len(codes))


def _caps(x: IntArray) -> list[int]:
    """Gap limits worth a look: from the mean gap to the largest one."""
    if len(x) == 1:
        return [1]
    gaps = np.diff(x)
    most = int(gaps.max()).bit_length()
    mean = max(1, int((x[-1] - x[0]) // (len(x) - 1))).bit_length()
    return [cap for cap in range(max(1, mean - 2), most + 1) if _n_bridges(x, cap) <= len(x)]


def _n_bridges(x: IntArray, cap: int) -> int:
    return int(((np.diff(x) - 1) // _widest(cap)).sum()) if len(x) > 1 else 0


def _widest(cap: int) -> int:
    """The largest gap that is left as it is."""
    return (1 << cap) - 1


def _bridged(x: IntArray, y: IntArray, cap: int) -> tuple[IntArray, IntArray]:
    """Keys with label 0 in gaps of 2^cap and more, so that none is left."""
    gaps = np.diff(x)
    extra = np.concatenate([(gaps - 1) // _widest(cap), [0]]) if len(x) > 1 else np.zeros(1, dtype=np.int64)
    if not extra.any():
        return x, y
    place = np.repeat(np.arange(len(x)), extra + 1)
    step = np.arange(len(place)) - np.repeat(np.cumsum(extra + 1) - (extra + 1), extra + 1)
    return x[place] + step * _widest(cap), np.where(step == 0, y[place], 0)


def _shapes(x: IntArray, n_items: int, cap: int, c: int, top: int, items: int | None, narrow: bool) -> list[DigitShape]:
    """Candidates: group sizes about the optimum, labels carried apart or on h."""
    gap = min(int(np.diff(x).max()), _widest(cap)) if len(x) > 1 else 1
    q = max(2, ((gap << (c + 1)) + (1 << (c + 1)) - 2).bit_length())
    first = max(2, (int(x[-1] - x[0]) << (c + 1)).bit_length() + 1)
    found = []
    for merged in (True, False):
        per_item = (6 if merged else 7) * q + 14
        best = round(((7 if narrow else 5) * n_items / per_item) ** 0.5)
        for k in {max(1, best - 1), max(1, best), best + 1} if items is None else {items}:
            found.append(DigitShape(min(k, n_items), first, q, c, top, int(x[0]), merged, narrow))
    return found


def _digits(x: IntArray, y: IntArray, shape: DigitShape) -> tuple[DigitShape, npt.NDArray[Any]]:
    """Digits (groups, k), and the shape with exactly the bits that they need."""
    k = shape.items
    # In 64 bits where they suffice, and in Python's integers otherwise.
    wide = int(x[-1] + 1 - shape.low).bit_length() + shape.label_bits + 1 > _SMALL
    keys, labels = (x.astype(object), y.astype(object)) if wide else (x, y)
    values = (keys - shape.low) * shape.unit + 2 * labels
    short = -len(x) % k
    if short:
        # One key behind the last one, with label 0; then digits 0, which repeat it.
        last = (int(x[-1]) + 1 - shape.low) * shape.unit
        values = np.concatenate([values, np.full(short, last, dtype=values.dtype)])
    table = values.reshape(-1, k)
    digits = np.concatenate([table[:, :1], np.diff(table, axis=1)], axis=1)
    first = max(2, int(digits[:, 0].max()).bit_length())
    bits = max(2, int(digits[:, 1:].max()).bit_length()) if k > 1 else 2
    return replace(shape, first_bits=first, bits=bits), digits


def _codes(digits: npt.NDArray[Any], shape: DigitShape) -> list[int]:
    """z_j 2^P as integers."""
    if digits.dtype == object:
        return [_joined(row.tolist(), shape) for row in digits]

    def bits(column: IntArray, width: int) -> npt.NDArray[np.uint8]:
        return ((column[..., None] >> np.arange(width - 1, -1, -1)) & 1).astype(np.uint8)

    codes = []
    pad = -shape.code_bits % 8
    for row in digits:
        rest = bits(row[1:], shape.bits).reshape(-1)
        packed = np.packbits(np.concatenate([bits(row[:1], shape.first_bits).reshape(-1), rest]))
        codes.append(int.from_bytes(packed.tobytes(), "big") >> pad)
    return codes


def _joined(row: list[int], shape: DigitShape) -> int:
    code = row[0]
    for digit in row[1:]:
        code = (code << shape.bits) | digit
    return code


def assemble_digits(thresholds: Sequence[int], codes: Sequence[int], shape: DigitShape) -> Network:
    """The network from its thresholds t_1 .. t_{m-1}, its codes z_j 2^P and its shape."""
    net = Assembler(["x"])
    scale = 1 << shape.code_bits
    jumps = [Fraction(b - a, scale) for a, b in pairwise(codes)]
    first = Fraction(codes[0], scale)
    (_narrow if shape.narrow else _wide)(net, thresholds, jumps, first)
    q = shape.first_bits
    start: Named = {"s": 1 << q, "x": -shape.unit, ONE: shape.offset + shape.unit * shape.low}
    net.layer({"h": start, **tent({"s": 1})})
    _loop(net, shape)
    return net.network()


def _wide(net: Assembler, thresholds: Sequence[int], jumps: list[Fraction], first: Fraction) -> None:
    numbered = list(enumerate(thresholds, 1))
    net.layer({"x": {"x": 1}, **{f"l{j}": {"x": -1, ONE: t} for j, t in numbered}})
    net.layer({"x": {"x": 1}, **{f"st{j}": {f"l{j}": -1, ONE: 1} for j, _ in numbered}})
    net.layer({"x": {"x": 1}, "s": {ONE: first, **{f"st{j}": jump for j, jump in enumerate(jumps, 1)}}})


def _narrow(net: Assembler, thresholds: Sequence[int], jumps: list[Fraction], first: Fraction) -> None:
    """One layer a group: a threshold, the step before it, and the sum so far."""
    n = len(thresholds)
    for at in range(n + 2):
        row: dict[str, Named] = {"x": {"x": 1}}
        if at < n:
            row["l"] = {"x": -1, ONE: thresholds[at]}
        if 1 <= at <= n:
            row["st"] = {"l": -1, ONE: 1}
        if at < 2:
            row["s"] = {ONE: first} if at == 0 else {"s": 1}
        else:
            row["s"] = {"s": 1, "st": jumps[at - 2]}
        net.layer(row)


def tent(s: Named) -> dict[str, Named]:
    """One tent map on a fraction."""
    return {"a1": scaled(s, 2), "a2": add(scaled(s, 4), {ONE: -2})}


def _loop(net: Assembler, shape: DigitShape) -> None:
    """Shift the digits out, one after the other, and let the tooth of each add its label."""
    c, merged = shape.label_bits, shape.merged
    gate = (1 << (c + 1)) - 2
    base = shape.offset
    tooth: Named = {"g1": Fraction(1, 2), "g2": -(1 << (c - 1)), "g3": Fraction((1 << c) - 1, 2)}
    state = {"compare": False, "pending": False, "out": False}

    def layer(neurons: dict[str, Named], h: Named) -> None:
        """A layer with h and, behind a comparison, its tooth; the tooth of the layer before is added to the label."""
        labels: Named = {"out": 1} if state["out"] else {}
        if state["pending"]:
            if merged:
                h = add(h, scaled(tooth, shape.gain))
            else:
                labels = add(labels, tooth)
        rows = {"h": h, **neurons} if h else dict(neurons)
        if labels:
            rows["out"] = labels
            state["out"] = True
        state["pending"] = state["compare"]
        if state["compare"]:
            for name, shift in (("g1", 0), ("g2", gate), ("g3", gate + 2)):
                rows[name] = {"E": 1, ONE: -base - shift}
        state["compare"] = "E" in neurons
        net.layer(rows)

    for item in range(shape.items):
        bits = shape.first_bits if item == 0 else shape.bits
        for _ in range(bits - 1):
            layer(tent(S), {"h": 1})
        compare: Named = {"h": 1, "a1": -1, "a2": 1}
        if item + 1 < shape.items:
            layer({"E": compare, **tent(S)}, add({"h": 1}, scaled(S, (1 << shape.bits) - 1)))
        else:
            layer({"E": compare}, compare if merged else {})
    keep: Named = {"h": 1} if merged else {}
    layer({}, keep)
    layer({}, keep)
    if merged:
        _unload(net, shape)
    else:
        net.layer({"label": {"out": 1}}, relu=False)


def _unload(net: Assembler, shape: DigitShape) -> None:
    """The label from h = (something below gain) + gain * label: its bits, the highest first."""
    total: Named = {"h": 1}
    label: Named = {}
    for bit in range(shape.label_bits - 1, -1, -1):
        limit = shape.gain << bit
        rows: dict[str, Named] = {"u1": add(total, {ONE: 1 - limit}), "u2": add(total, {ONE: -limit})}
        if bit:
            rows["T"] = total
        if label:
            rows["out"] = label
        net.layer(rows)
        total = {"T": 1, "u1": -limit, "u2": limit}
        label = add({"out": 1} if label else {}, {"u1": 1 << bit, "u2": -(1 << bit)})
    net.layer({"label": label}, relu=False)
