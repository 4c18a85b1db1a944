"""Affine-ReLU networks whose weights are exact dyadic rationals p / 2^f.

A network is a chain of sparse layers. Only what is not zero is stored, counted and evaluated: `params` is the number of
non-zero weights and biases. The bits of a weight p / 2^f are 1 + max(bit length of |p|, f): a sign, and what a
fixed-point register needs for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from rote.data._arrays import IntArray

__all__ = ["BIAS", "ONE", "Assembler", "Layer", "Network", "Row", "Weight", "add", "scaled", "weight_bits"]

Weight = int | Fraction
Row = Mapping[str, Weight]
"""One neuron: what it reads, by name, and with which weight; `ONE` names its bias."""

ONE: Final = "1"
BIAS: Final = -1
"""The column of a bias."""


def weight_bits(numerator: int, shift: int) -> int:
    """Bits of numerator / 2^shift, its sign among them."""
    return 1 + max(abs(numerator).bit_length(), shift)


@dataclass(frozen=True, eq=False)
class Layer:
    """y = W x + b, followed by ReLU or not; entry i says W[rows[i], cols[i]] = numerators[i] / 2^shifts[i]."""

    n_in: int
    n_out: int
    relu: bool
    rows: IntArray
    cols: IntArray
    numerators: tuple[int, ...]
    shifts: IntArray

    @property
    def params(self) -> int:
        return len(self.numerators)

    def entries(self) -> Iterator[tuple[int, int, int, int]]:
        """(row, column, numerator, shift) of every non-zero weight; biases have column -1."""
        return zip(self.rows.tolist(), self.cols.tolist(), self.numerators, self.shifts.tolist(), strict=True)

    def same(self, other: Layer) -> bool:
        """Whether both have the same size and the same weights."""
        return (
            (self.n_in, self.n_out, self.relu) == (other.n_in, other.n_out, other.relu)
            and self.numerators == other.numerators
            and all(
                np.array_equal(a, b)
                for a, b in ((self.rows, other.rows), (self.cols, other.cols), (self.shifts, other.shifts))
            )
        )


@dataclass(frozen=True, eq=False)
class Network:
    """Layers, one after the other."""

    layers: tuple[Layer, ...]

    @property
    def n_in(self) -> int:
        return self.layers[0].n_in

    @property
    def n_out(self) -> int:
        return self.layers[-1].n_out

    @property
    def depth(self) -> int:
        """Layers, the last linear one among them."""
        return len(self.layers)

    @property
    def width(self) -> int:
        return max(layer.n_out for layer in self.layers)

    @cached_property
    def params(self) -> int:
        """Non-zero weights and biases."""
        return sum(layer.params for layer in self.layers)

    @property
    def dense_params(self) -> int:
        """Weights and biases of the same network without its zeros left out."""
        return sum(layer.n_out * (layer.n_in + 1) for layer in self.layers)

    @cached_property
    def _bits(self) -> tuple[int, int]:
        bits = [weight_bits(p, f) for layer in self.layers for _, _, p, f in layer.entries()]
        return max(bits), sum(bits)

    @property
    def max_bits(self) -> int:
        """Bits of the widest weight."""
        return self._bits[0]

    @property
    def total_bits(self) -> int:
        """Bits of all non-zero weights."""
        return self._bits[1]

    def same(self, other: Network) -> bool:
        """Whether both have the same weights, layer by layer."""
        return self.depth == other.depth and all(a.same(b) for a, b in zip(self.layers, other.layers, strict=True))


def scaled(row: Row, factor: Weight) -> dict[str, Weight]:
    """The row times a number."""
    return {name: weight * factor for name, weight in row.items()}


def add(*rows: Row) -> dict[str, Weight]:
    """The sum of rows."""
    total: dict[str, Weight] = {}
    for row in rows:
        for name, weight in row.items():
            total[name] = total.get(name, 0) + weight
    return total


class Assembler:
    """Puts a network together from named neurons.

    `layer` takes one row per new neuron, in terms of the neurons of the layer before; names exist for one layer only.
    """

    def __init__(self, inputs: Sequence[str]) -> None:
        self._names = {name: i for i, name in enumerate(inputs)}
        self._layers: list[Layer] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The neurons of the last layer."""
        return tuple(self._names)

    def layer(self, neurons: Mapping[str, Row], *, relu: bool = True) -> None:
        """Add a layer; zero weights are left out."""
        rows, cols, numerators, shifts = [], [], [], []
        for at, row in enumerate(neurons.values()):
            for name, weight in row.items():
                if not weight:
                    continue
                numerator, denominator = weight.as_integer_ratio()
                shift = denominator.bit_length() - 1
                assert denominator == 1 << shift, "weights are dyadic"
                rows.append(at)
                cols.append(BIAS if name == ONE else self._names[name])
                numerators.append(numerator)
                shifts.append(shift)
        self._layers.append(
            Layer(
                len(self._names),
                len(neurons),
                relu,
                np.array(rows, dtype=np.int64),
                np.array(cols, dtype=np.int64),
                tuple(numerators),
                np.array(shifts, dtype=np.int64),
            )
        )
        self._names = {name: i for i, name in enumerate(neurons)}

    def network(self) -> Network:
        """What was put together."""
        return Network(tuple(self._layers))
