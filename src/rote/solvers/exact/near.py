"""Variant A for real inputs: the label of the key that lies within 1/2, and 0 where every key is 3/2 or more away.

Statement: let x_1 < ... < x_n be integers, at least 2 apart, with labels in [0, C). There is an affine-ReLU network
           whose value is the label y_i at every real x with |x - x_i| <= 1/2, and 0 at every real x >= 0 with
           |x - x_i| >= 3/2 for all i. (In between it may be anything.)
Source:    arXiv 2409.17677; digits as in `rote.solvers.exact.digits`.

An item has two digits: twice the distance to the key before, and twice the label. The comparison is a trapeze
m = relu(e + 3/2) - relu(e + 1/2) - relu(e - 1/2) + relu(e - 3/2) of e = x_i - x, which is 1 near the key and 0 away
from it; the label's digit y then counts as relu(y - 2^c (1 - m)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from rote.solvers.exact.digits import Named, S, label_bits, tent
from rote.solvers.exact.network import ONE, Assembler, Network, Weight, add, scaled

__all__ = ["memorise_near"]

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class _Shape:
    items: int
    first_bits: int
    bits: int
    label_bits: int
    top: int
    low: int

    @property
    def code_bits(self) -> int:
        return self.first_bits + (self.items - 1) * self.bits + self.items * (self.label_bits + 1)


def memorise_near(
    keys: npt.ArrayLike,
    labels: npt.ArrayLike,
    n_labels: int,
    *,
    top: int,
    inputs: tuple[str, ...] = ("x",),
    project: Mapping[str, Weight] | None = None,
) -> Network:
    """The network for integer keys in [0, top]; with `project` its input is first mapped to the line."""
    x, y = np.asarray(keys, dtype=np.int64), np.asarray(labels, dtype=np.int64)
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    c = label_bits(n_labels)
    gap = int(np.diff(x).max()) if len(x) > 1 else 1
    bits, first = max(2, (2 * gap).bit_length()), max(2, (2 * int(x[-1] - x[0])).bit_length())
    per_item = 7 * bits + 8 * (c + 1) + 35
    k = min(len(x), max(1, round((5 * len(x) / per_item) ** 0.5)))
    shape = _Shape(k, first, bits, c, top, int(x[0]))
    net = Assembler(inputs)
    net.layer({"x": {"x": 1} if project is None else dict(project)})
    codes = [_code(x[at : at + k], y[at : at + k], shape) for at in range(0, len(x), k)]
    _select(net, x[k::k].tolist(), codes, shape)
    _loop(net, shape)
    return net.network()


def _code(x: npt.NDArray[np.int64], y: npt.NDArray[np.int64], shape: _Shape) -> Fraction:
    """The digits of a group as a fraction; missing items are zeros: the last key again, with label 0."""
    code, used, before = 0, 0, shape.low
    for at, (key, label) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        bits = shape.first_bits if at == 0 else shape.bits
        code = (code << bits) | (2 * (key - before))
        code = (code << (shape.label_bits + 1)) | (2 * label)
        used += bits + shape.label_bits + 1
        before = key
    return Fraction(code << (shape.code_bits - used), 1 << shape.code_bits)


def _select(net: Assembler, thresholds: list[int], codes: list[Fraction], shape: _Shape) -> None:
    numbered = list(enumerate(thresholds, 1))
    net.layer({"x": {"x": 1}, **{f"l{j}": {"x": -1, ONE: t - HALF} for j, t in numbered}})
    net.layer({"x": {"x": 1}, **{f"st{j}": {f"l{j}": -1, ONE: 1} for j, _ in numbered}})
    jumps = {f"st{j}": codes[j] - codes[j - 1] for j, _ in numbered}
    net.layer({"x": {"x": 1}, "s": {ONE: codes[0], **jumps}})
    offset = shape.top + 2
    start: Named = {"s": 1 << (shape.first_bits - 1), "x": -1, ONE: offset + shape.low}
    net.layer({"h": start, **tent({"s": 1})})


def _loop(net: Assembler, shape: _Shape) -> None:
    c, offset = shape.label_bits, shape.top + 2
    trapeze: Named = {"m1": 1, "m2": -1, "m3": -1, "m4": 1}
    carry: Named = {}
    for item in range(shape.items):
        for _ in range((shape.first_bits if item == 0 else shape.bits) - 1):
            net.layer({"h": {"h": 1}, **tent(S), **_kept(carry)})
            carry = {"out": 1} if carry else {}
        net.layer({"h": add({"h": 1}, scaled(S, -HALF)), "y": scaled(S, 1 << c), **tent(S), **_kept(carry)})
        carry = {"out": 1} if carry else {}
        label: Named = {"y": 1}
        for at in range(c):
            rows: dict[str, Named] = {"h": {"h": 1}, "y": label, **tent(S), **_kept(carry)}
            if at == 0:
                for name, edge in (("m1", 3), ("m2", 1), ("m3", -1), ("m4", -3)):
                    rows[name] = {"h": 1, ONE: Fraction(edge, 2) - offset}
            net.layer(rows)
            carry = {"out": 1} if carry else {}
            label = add({"y": 1}, scaled(trapeze, 1 << c)) if at == 0 else {"y": 1}
        found = add(label, scaled(S, -HALF), {ONE: -(1 << c)})
        if item + 1 < shape.items:
            onward = add({"h": 1}, scaled(S, 1 << (shape.bits - 1)))
            net.layer({"h": onward, "g": found, **tent(S), **_kept(carry)})
        else:
            net.layer({"g": found, **_kept(carry)})
        carry = add({"out": 1} if carry else {}, {"g": 1})
    net.layer({"label": carry}, relu=False)


def _kept(carry: Named) -> dict[str, Named]:
    return {"out": carry} if carry else {}
