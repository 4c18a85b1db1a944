"""Neurons that bounds show to be 0 are left out, and nothing else changes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.models.kinds._relu_transformer import Chain, SparseLinear, chain
from rote.referee import relu_forward
from rote.referee.exact import Values, evaluate
from rote.solvers.exact.network import ONE, Assembler, Network
from rote.solvers.exact.slots import memorise_slots


def plainly(network: Network, x: Fraction) -> Fraction:
    """The definition of a layer, one number at a time."""
    values = [x]
    for layer in network.layers:
        sums = [Fraction(0)] * layer.n_out
        for row, column, numerator, shift in layer.entries():
            sums[row] += Fraction(numerator, 1 << shift) * (values[column] if column >= 0 else 1)
        values = [max(s, Fraction(0)) if layer.relu else s for s in sums]
    return values[0]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**16), scale=st.sampled_from([-1200, -500, -60, 0, 60, 500, 1200]))
def test_the_exact_evaluator_is_exact_at_every_scale(seed: int, scale: int) -> None:
    rng = np.random.default_rng(seed)
    unit = Fraction(2) ** scale

    def weight() -> Fraction:
        return Fraction(int(rng.integers(-9, 10)), 1 << int(rng.integers(0, 4)))

    net = Assembler(["x"])
    net.layer({f"a{j}": {"x": weight() * unit, ONE: weight() * 20 * unit} for j in range(90)})
    rows: dict[str, Any] = {}
    for j in range(80):
        read = rng.choice(90, size=3, replace=False)
        rows[f"b{j}"] = {**{f"a{k}": weight() for k in read}, ONE: weight() * unit}
    net.layer(rows)
    net.layer({"y": {f"b{j}": weight() for j in range(80)}}, relu=False)
    network = net.network()
    inputs = rng.integers(-60, 61, size=40)
    found = evaluate(network, [Values(inputs)], chunk=8)[0]
    for number, x in zip(found.numerators.tolist(), inputs.tolist(), strict=True):
        assert Fraction(int(number), 1 << found.shift) == plainly(network, Fraction(x))


@pytest.fixture(scope="module")
def slots() -> tuple[Network, Any, Any]:
    rng = np.random.default_rng(0)
    keys = rng.permutation(np.unique(rng.integers(0, 10**8, size=9000)))[:6000]
    labels = rng.integers(256, size=6000)
    return memorise_slots(keys, labels, 256, precision="float64").network, keys, labels


def test_a_module_says_the_same_of_many_rows_as_of_few(slots: tuple[Network, Any, Any]) -> None:
    network, keys, labels = slots
    module = chain(network, torch.float64)
    assert isinstance(module, Chain) and any(isinstance(one, SparseLinear) and one.n_out > 256 for one in module)
    others = np.random.default_rng(1).integers(0, 10**8, size=5000)
    for asked in (keys, others):
        rows = torch.from_numpy(np.array(asked)).double()[:, None]
        whole = module(rows)
        pieces = torch.cat([module(part) for part in rows.split(500)])  # type: ignore[no-untyped-call]
        assert torch.equal(whole, pieces)
    assert np.array_equal(module(torch.from_numpy(keys.copy()).double()[:, None])[:, 0].numpy(), labels)


@pytest.mark.parametrize("number", [np.float64, np.float32])
def test_the_referee_says_the_same_with_and_without_what_is_left_out(slots: Any, number: Any) -> None:
    """Also where the number format rounds, and answers are wrong."""
    network, keys, labels = slots
    layers = relu_forward._layers(network, number)
    x = keys[None, :].astype(number)
    quick, slow = relu_forward._in_order(layers, x), relu_forward._through(layers, x)
    assert np.array_equal(quick, slow)
    assert np.array_equal(quick[0], labels) == (number is np.float64)
