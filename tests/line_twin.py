"""Keys that memorisers find hard, and a plain twin of the exact evaluator: fraction by fraction."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from rote.solvers.exact.network import Layer, Network

IntArray = npt.NDArray[np.int64]


def plain(network: Network, inputs: list[Fraction]) -> list[Fraction]:
    """One sample, one neuron after the other."""
    values = inputs
    for layer in network.layers:
        sums = [Fraction(0)] * layer.n_out
        for row, column, p, f in layer.entries():
            sums[row] += Fraction(p, 1 << f) * (values[column] if column >= 0 else 1)
        values = [max(total, Fraction(0)) for total in sums] if layer.relu else sums
    return values


def changed(network: Network, entry: int, numerator: int) -> Network:
    """The network with another numerator at one of its weights."""
    layers, at = [], entry
    for layer in network.layers:
        if 0 <= at < layer.params:
            numerators = (*layer.numerators[:at], numerator, *layer.numerators[at + 1 :])
            layers.append(Layer(layer.n_in, layer.n_out, layer.relu, layer.rows, layer.cols, numerators, layer.shifts))
        else:
            layers.append(layer)
        at -= layer.params
    return Network(tuple(layers))


def numerator_of(network: Network, entry: int) -> int:
    return [p for layer in network.layers for p in layer.numerators][entry]


@st.composite
def hard_keys(draw: st.DrawFn, most: int = 60, top: int = 1 << 40) -> IntArray:
    """Distinct keys: random, in clusters, in a row, or spread over many orders of magnitude."""
    kind = draw(st.sampled_from(["random", "clusters", "row", "powers", "ends"]))
    count = draw(st.integers(1, most))
    if kind == "random":
        found = draw(st.lists(st.integers(0, top), min_size=1, max_size=count))
    elif kind == "clusters":
        centres = draw(st.lists(st.integers(0, top - 100), min_size=1, max_size=4))
        found = [centre + draw(st.integers(0, 99)) for centre in centres for _ in range(1 + count // 4)]
    elif kind == "row":
        start = draw(st.integers(0, top - count))
        found = list(range(start, start + count))
    elif kind == "powers":
        found = [(1 << k) + draw(st.integers(0, 1)) for k in range(min(count, top.bit_length() - 1))]
    else:
        found = [0, 1, top - 1, top]
    return np.unique(np.array(found, dtype=np.int64))
