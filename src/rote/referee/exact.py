"""Exact evaluation of any affine-ReLU network, written from the definition of a layer and from nothing else.

No rounding happens anywhere, every stored weight is read, and no construction is known here. What makes it bearable:
samples on which a neuron's inputs agree share its value (a "cell"), numbers that fit are kept in 64 bits, carried
neurons are not computed again, and neither are those that bounds in floats, rounded outwards, show to be 0 behind ReLU.
Values are numerators over 2^shift and over one common denominator, so that the mean of any number of tokens is exact
too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

if TYPE_CHECKING:
    from rote.referee.exact_format import AnyLayer, AnyNetwork

__all__ = ["Values", "evaluate", "labels_of", "whole"]

_CHUNK = 4096
_SMALL = 62
_SCALE = 480
"""Bits before or behind the point that a number may have to be bounded in floats."""
_FEW = 64
"""Layers with more neurons than this look for those that are 0 first."""
_WIDE = 12
"""Rows with more terms than this look for samples that agree before they multiply."""

Array = npt.NDArray[Any]
_Joins = dict[tuple[int, ...], "tuple[_Cells, Array, list[_Cells]]"]
"""Joins by the identity of what was joined, which is kept alive beside them."""


@dataclass(frozen=True)
class Values:
    """Exact numbers numerators / (2^shift * denominator); numerators are 64-bit or Python integers."""

    numerators: Array
    shift: int = 0
    denominator: int = 1

    def __len__(self) -> int:
        return len(self.numerators)


def whole(values: Values) -> npt.NDArray[np.int64] | None:
    """The values as integers, or None if one of them is none (or needs more than 62 bits)."""
    unit = values.denominator << values.shift
    numerators = values.numerators
    if unit == 1:
        quotient = numerators
    elif numerators.dtype == object or unit.bit_length() > _SMALL:
        wide = numerators.astype(object)
        if (wide % unit != 0).any():
            return None
        quotient = wide // unit
    else:
        if (numerators % unit != 0).any():
            return None
        quotient = numerators // unit
    if quotient.dtype == object and len(quotient) and _bits(quotient) > _SMALL:
        return None
    return quotient.astype(np.int64)


def labels_of(values: Values) -> npt.NDArray[np.int64]:
    """The values as labels: integers from 0, and -1 where one is no such number."""
    unit = values.denominator << values.shift
    numerators = values.numerators
    if unit.bit_length() > _SMALL:
        numerators = numerators.astype(object)
    quotient = numerators // unit
    fits = (numerators % unit == 0) & (quotient >= 0) & (quotient < 1 << _SMALL)
    return np.where(fits.astype(bool), quotient, -1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Which samples share values: sample i has the values of cell index[i]."""

    index: Array
    count: int


@dataclass(frozen=True, eq=False)
class _Neuron:
    cells: _Cells
    numerators: Array
    """One a cell."""
    shift: int
    bits: int
    """No numerator has more."""

    @cached_property
    def edges(self) -> tuple[float, float]:
        """About the smallest and the largest value, without the denominator."""
        return _float(int(self.numerators.min()), self.shift), _float(int(self.numerators.max()), self.shift)


def evaluate(network: AnyNetwork, inputs: Sequence[Values], *, chunk: int = _CHUNK) -> tuple[Values, ...]:
    """The outputs of the network for many samples; `inputs` has one column of values per input neuron."""
    assert len(inputs) == network.n_in, "one column of values per input"
    denominator = inputs[0].denominator
    assert all(column.denominator == denominator for column in inputs), "inputs share a denominator"
    n = len(inputs[0])
    if n == 0:
        return tuple(Values(np.zeros(0, dtype=np.int64)) for _ in range(network.n_out))
    # Samples in order of the first input, so that a chunk is a neighbourhood, in which most neurons take few values.
    order = np.argsort(inputs[0].numerators, kind="stable")
    layers = [_Rows.of(layer, denominator) for layer in network.layers]
    parts = [
        _run(layers, [Values(c.numerators[part], c.shift) for c in inputs], denominator)
        for part in np.array_split(order, -(-n // chunk))
    ]
    back = np.empty(n, dtype=np.int64)
    back[order] = np.arange(n)
    return tuple(_joined([part[i] for part in parts], back, denominator) for i in range(network.n_out))


def _joined(parts: list[Values], back: Array, denominator: int) -> Values:
    shift = max(part.shift for part in parts)
    small = all(part.numerators.dtype != object for part in parts) and all(
        _bits(part.numerators) + shift - part.shift <= _SMALL for part in parts
    )
    kind: Any = np.int64 if small else object
    numerators = np.concatenate([part.numerators.astype(kind) * (1 << (shift - part.shift)) for part in parts])
    return Values(numerators[back], shift, denominator)


def _run(layers: list[_Rows], inputs: list[Values], denominator: int) -> list[Values]:
    neurons = [_first(column) for column in inputs]
    joins: _Joins = {}
    nothing = _Neuron(_Cells(np.zeros(len(inputs[0]), dtype=np.int64), 1), np.zeros(1, dtype=np.int64), 0, 0)
    for layer in layers:
        neurons = _layer(layer, neurons, denominator, joins, nothing)
    return [Values(n.numerators[n.cells.index], n.shift) for n in neurons]


def _first(column: Values) -> _Neuron:
    distinct, index = np.unique(column.numerators, return_inverse=True)
    return _Neuron(_Cells(index.reshape(-1), len(distinct)), distinct, column.shift, _bits(distinct))


def _bits(numbers: Array) -> int:
    if not len(numbers):
        return 0
    return int(max(abs(int(numbers.max())), abs(int(numbers.min())))).bit_length()


@dataclass(frozen=True, eq=False)
class _Rows:
    """A layer by rows, and its weights in floats for bounds."""

    terms: list[list[tuple[int, int, int]]]
    """Of every row: column, numerator and shift."""
    relu: bool
    weights: Any
    sizes: Any
    """|W|."""
    bias: Array
    """Times the denominator of the inputs."""

    @classmethod
    def of(cls, layer: AnyLayer, denominator: int) -> _Rows:
        terms: list[list[tuple[int, int, int]]] = [[] for _ in range(layer.n_out)]
        entries = list(layer.entries())
        for row, column, numerator, shift in entries:
            terms[row].append((column, numerator, shift))
        if not layer.relu or layer.n_out <= _FEW:
            return cls(terms, layer.relu, None, None, np.zeros(0))
        values = np.array([_float(p, f) for _, _, p, f in entries])
        rows, columns = np.array([entry[:2] for entry in entries]).T
        inner = columns >= 0
        weights = csr_matrix((values[inner], (rows[inner], columns[inner])), (layer.n_out, layer.n_in))
        bias = np.zeros(layer.n_out)
        np.add.at(bias, rows[~inner], values[~inner] * denominator)
        return cls(terms, layer.relu, weights, abs(weights), bias)

    def busy(self, before: list[_Neuron]) -> Iterable[int]:
        """Rows that are not known to be 0: numbers and sums are off by less than what is added to the bounds."""
        if self.weights is None:
            return range(len(self.terms))
        low, high = np.array([neuron.edges for neuron in before]).T
        # Halves first, so that no sum of two finite numbers is infinite.
        middle, reach = low / 2 + high / 2, high / 2 - low / 2
        largest = self.sizes @ np.maximum(np.abs(low), np.abs(high)) + np.abs(self.bias)
        off = (np.diff(self.weights.indptr) + 8) * 2.0**-49 * largest
        with np.errstate(invalid="ignore", over="ignore"):
            most = self.weights @ middle + self.sizes @ reach + self.bias + off
        return np.flatnonzero(~(most <= 0)).tolist()


def _float(numerator: int, shift: int) -> float:
    """numerator / 2^shift but for a relative error of 2^-53; not a number where it, or a product of two, has none."""
    size = numerator.bit_length() - shift
    return numerator / (1 << shift) if not numerator or -_SCALE < size < _SCALE else math.nan


def _layer(layer: _Rows, before: list[_Neuron], denominator: int, joins: _Joins, nothing: _Neuron) -> list[_Neuron]:
    neurons = [nothing] * len(layer.terms)
    for row in layer.busy(before):
        # What is 0 adds nothing.
        terms = [term for term in layer.terms[row] if term[0] < 0 or before[term[0]] is not nothing]
        neurons[row] = _neuron(terms, before, denominator, layer.relu, joins)
    return neurons


def _neuron(
    terms: list[tuple[int, int, int]], before: list[_Neuron], denominator: int, relu: bool, joins: _Joins
) -> _Neuron:
    bias = [(p * denominator, f) for column, p, f in terms if column < 0]
    read = [(before[column], p, f) for column, p, f in terms if column >= 0]
    if len(read) == 1 and not bias and read[0][1] == 1 and read[0][2] == 0 and relu:
        carried = read[0][0]
        if not len(carried.numerators) or int(carried.numerators.min()) >= 0:
            return carried
    if not read:
        some = before[0].cells
        cells = _Cells(np.zeros(len(some.index), dtype=np.int64), 1)
        columns: list[Array] = []
    else:
        cells, columns = _common([neuron for neuron, _, _ in read], joins)
    if len(read) > _WIDE and all(column.dtype != object for column in columns):
        cells, columns = _coarser(cells, columns)
    # numerator = odd * 2^t, so that doubling shortens the fraction instead of lengthening the number.
    scales = [_split(p, f) for _, p, f in read]
    consts = [_split(p, f) for p, f in bias]
    out_shift = max(
        [0] + [neuron.shift + s for (neuron, _, _), (_, s) in zip(read, scales, strict=True)] + [s for _, s in consts]
    )
    factors = [odd << (out_shift - neuron.shift - s) for (neuron, _, _), (odd, s) in zip(read, scales, strict=True)]
    constant = sum(odd << (out_shift - s) for odd, s in consts)
    widest = max(
        [constant.bit_length()]
        + [neuron.bits + factor.bit_length() for (neuron, _, _), factor in zip(read, factors, strict=True)]
    )
    bits = widest + (len(read) + len(consts)).bit_length()
    return _summed(cells, columns, factors, constant, out_shift, bits, relu)


def _summed(
    cells: _Cells, columns: list[Array], factors: list[int], constant: int, shift: int, bits: int, relu: bool
) -> _Neuron:
    short = all(column.dtype != object for column in columns)
    small = bits <= _SMALL and short
    if relu and short and not small:
        positive = np.flatnonzero(~_negative(columns, factors, constant, cells.count))
        rest = [column[positive] for column in columns]
        # A column that is 0 here may have any factor.
        sizes = [_bits(c) and _bits(c) + f.bit_length() for c, f in zip(rest, factors, strict=True)]
        bits = max([constant.bit_length(), *sizes]) + (len(rest) + 1).bit_length()
        total: Array = np.zeros(cells.count, dtype=np.int64 if bits <= _SMALL else object)
        total[positive] = _total(rest, factors, constant, len(positive), bits <= _SMALL)
        small = bits <= _SMALL
    else:
        total = _total(columns, factors, constant, cells.count, small)
    if relu:
        total = np.maximum(total, 0)
    if not small:
        bits = _bits(total)
        if bits <= _SMALL:
            total = total.astype(np.int64)
    return _Neuron(cells, total, shift, bits)


def _total(columns: list[Array], factors: list[int], constant: int, count: int, small: bool) -> Array:
    total: Array = np.full(count, constant, dtype=np.int64 if small else object)
    for column, factor in zip(columns, factors, strict=True):
        if not small:
            total = total + column.astype(object) * factor
        elif factor.bit_length() <= _SMALL:
            total = total + column * factor
        # A longer factor fits only where the column is 0.
    return total


def _negative(columns: list[Array], factors: list[int], constant: int, count: int) -> npt.NDArray[np.bool_]:
    """Cells whose sum is negative for sure, by floats and what these can be off by."""
    start = _float(constant, 0)
    about, largest = np.full(count, start), np.full(count, abs(start))
    for column, factor in zip(columns, factors, strict=True):
        term = column * _float(factor, 0)
        about += term
        largest += np.abs(term)
    return np.asarray(about + (len(columns) + 8) * 2.0**-49 * largest < 0)


def _split(numerator: int, shift: int) -> tuple[int, int]:
    """numerator / 2^shift as odd / 2^s, where s may be negative."""
    if numerator == 0:
        return 0, 0
    zeros = (numerator & -numerator).bit_length() - 1
    return numerator >> zeros, shift - zeros


def _common(neurons: list[_Neuron], joins: _Joins) -> tuple[_Cells, list[Array]]:
    """Cells in which every one of the neurons has one value, and these values."""
    kinds = list({id(neuron.cells): neuron.cells for neuron in neurons}.values())
    if len(kinds) == 1:
        return kinds[0], [neuron.numerators for neuron in neurons]
    key = tuple(sorted(id(cells) for cells in kinds))
    if key not in joins:
        joins[key] = (*_join(kinds), kinds)
    cells, members, _ = joins[key]
    return cells, [n.numerators if n.cells is cells else n.numerators[n.cells.index[members]] for n in neurons]


def _join(kinds: list[_Cells]) -> tuple[_Cells, Array]:
    """The cells of samples that agree in all kinds, and one sample of each; where one of the kinds is that, itself."""
    code, count = kinds[0].index, kinds[0].count
    for other in kinds[1:]:
        distinct, code = np.unique(code.astype(np.int64) * other.count + other.index, return_inverse=True)
        code, count = code.reshape(-1), len(distinct)
    cells = next((kind for kind in kinds if kind.count == count), _Cells(code, count))
    members = np.empty(count, dtype=np.int64)
    members[cells.index] = np.arange(len(code))
    return cells, members


def _coarser(cells: _Cells, columns: list[Array]) -> tuple[_Cells, list[Array]]:
    """Merge cells in which all columns agree."""
    table = np.stack(columns)
    keep = np.ones(cells.count, dtype=bool)
    keep[1:] = (table[:, 1:] != table[:, :-1]).any(axis=0)
    # Neighbours only: cells are in order of the input, and what a row can tell apart are stretches of it.
    place = np.cumsum(keep) - 1
    merged = _Cells(place[cells.index], int(place[-1]) + 1)
    return merged, [column[keep] for column in columns]
