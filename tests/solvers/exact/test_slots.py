"""Variant B: right for every key, in exact arithmetic and in floats, whatever the order of summation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.errors import CapacityError
from rote.referee.exact import Values, evaluate, whole
from rote.solvers.exact.hashing import Orbit, equations, frame, plan_runs
from rote.solvers.exact.network import Network
from rote.solvers.exact.slots import Precision, largest_key, memorise_slots

IntArray = npt.NDArray[np.int64]
DTYPES = {"float64": torch.float64, "float32": torch.float32}
PRECISIONS: tuple[Precision, ...] = ("float64", "float32")


def exact(network: Network, keys: IntArray) -> IntArray | None:
    return whole(evaluate(network, [Values(keys)])[0])


def floats(network: Network, keys: IntArray, precision: Precision, *, backwards: bool) -> list[float]:
    """A dense forward pass; the weights are exact in the precision."""
    state = torch.tensor(keys).to(DTYPES[precision])[:, None]
    for layer in network.layers:
        wide = torch.zeros(layer.n_out, layer.n_in + 1, dtype=torch.float64)
        for row, column, numerator, shift in layer.entries():
            wide[row, column] = numerator / (1 << shift)
        matrix = wide.to(DTYPES[precision])
        assert torch.equal(matrix.double(), wide), "every weight is a float"
        weight, bias = matrix[:, :-1], matrix[:, -1]
        state = bias + state.flip(1) @ weight.flip(1).T if backwards else torch.addmm(bias, state, weight.T)
        if layer.relu:
            state = torch.relu(state)
    return [float(value) for value in state[:, 0].double()]


def check(keys: IntArray, labels: IntArray, n_labels: int, precision: Precision) -> Network:
    network = memorise_slots(keys, labels, n_labels, precision=precision).network
    found = exact(network, keys)
    assert found is not None
    assert np.array_equal(found, labels)
    for backwards in (False, True):
        assert floats(network, keys, precision, backwards=backwards) == labels.tolist()
    return network


def key_sets(n: int, high: int) -> dict[str, IntArray]:
    rng = np.random.default_rng(n)
    spread = np.unique((2.0 ** np.linspace(0, high.bit_length() - 1.01, n)).astype(np.int64))
    return {
        "random": rng.permutation(np.unique(rng.integers(0, high, n))),
        "dense": np.arange(n, dtype=np.int64),
        "far": high - 1 - np.arange(n, dtype=np.int64),
        "clusters": np.unique(
            (rng.integers(0, high - 500, 5)[:, None] + rng.integers(0, 500, (5, n // 5 + 1))).ravel()
        ),
        "exponential": spread,
        "strided": np.arange(n, dtype=np.int64) * max(1, (high // n) & ~63),
    }


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("n_labels", [2, 3, 10, 256, 1000])
@pytest.mark.parametrize("n", [1, 2, 40, 500])
def test_every_key(precision: Precision, n_labels: int, n: int) -> None:
    rng = np.random.default_rng(7)
    for name, keys in key_sets(n, largest_key(precision) + 1).items():
        if n < 500 or (name, n_labels) in {("random", 2), ("random", 256), ("dense", 10), ("exponential", 3)}:
            check(keys, rng.integers(0, n_labels, len(keys)), n_labels, precision)


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_any_data(data: st.DataObject) -> None:
    precision = data.draw(st.sampled_from(PRECISIONS))
    n_labels = data.draw(st.sampled_from([1, 2, 3, 10, 256]))
    top = data.draw(st.sampled_from([40, 1000, largest_key(precision)]))
    pairs = data.draw(
        st.dictionaries(st.integers(0, top), st.integers(0, n_labels - 1), min_size=1, max_size=40).map(dict.items)
    )
    keys, labels = np.array(list(pairs), dtype=np.int64).T
    check(keys, labels, n_labels, precision)


def test_labels_that_collide() -> None:
    """Each label is the opposite of what the table of the points before it says; every point is right all the same."""
    keys, rows = np.arange(0, 700, 7, dtype=np.int64), 6
    orbit, labels = Orbit(frame(keys).bits, 51, 10, 6), np.zeros(len(keys), dtype=np.int64)
    for at in range(1, len(keys)):
        points = equations(orbit, keys[: at + 1], labels[: at + 1], rows, 1, 1)
        runs = plan_runs(points[:at], rows, 1)
        assert runs is not None
        # Six rows, an even number: the parity is the label itself.
        labels[at] = 1 - (points[at] & runs[-1].columns[0]).bit_count() % 2
    points = equations(orbit, keys, labels, rows, 1, 1)
    runs = plan_runs(points, rows, 1)
    assert runs is not None
    assert [run.start for run in runs[1:]] == [run.end for run in runs[:-1]]
    assert max(run.end - run.start for run in runs) <= rows, "no point is free"
    for run in runs:
        for at in range(run.start, run.end):
            assert (points[at] & ((1 << rows) - 1) & run.columns[0]).bit_count() % 2 == labels[at]
    check(keys, labels, 2, "float64")
    check(keys, labels, 2, "float32")
    check(keys, np.ones(len(keys), dtype=np.int64), 2, "float64")


def test_fewer_weights_than_claimed() -> None:
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(0, 10**8, 10_050))[:10_000]
    made = memorise_slots(keys, rng.integers(0, 2, 10_000), 2, precision="float64")
    assert made.network.params <= 0.25 * 10_000
    keys = np.unique(rng.integers(0, 1 << 21, 4_020))[:4_000]
    labels = rng.integers(0, 2, 4_000)
    assert check(keys, labels, 2, "float32").params <= 1_600


def test_keys_beyond_the_precision() -> None:
    keys = np.array([0, 1 << 21], dtype=np.int64)
    with pytest.raises(CapacityError, match=r"float64 takes keys below 2\^47, exact takes any"):
        memorise_slots(keys, np.array([0, 1]), 2, precision="float32")
    with pytest.raises(CapacityError, match=r"float64 takes keys below 2\^47, and the largest is"):
        memorise_slots(np.array([1 << 47]), np.array([0]), 2, precision="float64")
