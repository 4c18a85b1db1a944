"""A lookup on the line that ordinary floats carry out exactly: a value at each of a few integers, 0 at all others.

l_j = relu(t_j - x) and I_j = relu(1 + t_j - x - 2 l_j), which is 1 at x = t_j and 0 at every other integer; the value
is sum_j v_j I_j, in which one term at most is not 0, so that no order of summation rounds anything. Six weights a key.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from rote.solvers.exact.network import ONE, Assembler, Network

__all__ = ["lookup_params", "memorise_lookup"]


def lookup_params(n_keys: int) -> int:
    """Weights of the lookup for so many keys, none of them 0."""
    return 6 * n_keys + 1


def memorise_lookup(keys: npt.NDArray[Any], values: npt.NDArray[Any]) -> Network:
    """The network; keys whose value is 0 need no weights."""
    every = [(int(t), int(v)) for t, v in zip(keys, values, strict=True)]
    pairs = [pair for pair in every if pair[1]] or every[:1]
    net = Assembler(["x"])
    net.layer({"x": {"x": 1}, **{f"l{j}": {"x": -1, ONE: t} for j, (t, _) in enumerate(pairs)}})
    net.layer({f"i{j}": {"x": -1, f"l{j}": -2, ONE: 1 + t} for j, (t, _) in enumerate(pairs)})
    net.layer({"value": {f"i{j}": v for j, (_, v) in enumerate(pairs)}}, relu=False)
    return net.network()
