"""Variant C: right for every key, few weights, and a fast evaluation that refuses whatever it does not know."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.errors import CapacityError
from rote.referee.exact import Values, evaluate, whole
from rote.solvers.exact.blocks import memorise_blocks
from rote.solvers.exact.blocks_fast import evaluate_blocks
from rote.solvers.exact.network import Network
from rote.solvers.exact.slots import memorise_slots

IntArray = npt.NDArray[np.int64]


def exact(network: Network, keys: IntArray) -> IntArray:
    found = whole(evaluate(network, [Values(keys)])[0])
    assert found is not None
    return found


def check(keys: IntArray, labels: IntArray, n_labels: int, **options: int) -> Network:
    network = memorise_blocks(keys, labels, n_labels, **options).network
    for found in (exact(network, keys), evaluate_blocks(network, keys)):
        assert found is not None
        assert np.array_equal(found, labels)
    return network


def key_sets(n: int) -> dict[str, IntArray]:
    rng = np.random.default_rng(n)
    spread = np.unique((2.0 ** np.linspace(0, 61, n)).astype(np.int64))
    return {
        "random": rng.permutation(np.unique(rng.integers(0, max(4, n * n), n))),
        "wide": np.unique(rng.integers(0, 1 << 62, n)),
        "dense": np.arange(n, dtype=np.int64),
        "far": (1 << 60) - 1 - np.arange(n, dtype=np.int64),
        "clusters": np.unique((rng.integers(0, 1 << 50, 5)[:, None] + rng.integers(0, 900, (5, n // 5 + 1))).ravel()),
        "exponential": spread,
        "strided": 5 + np.arange(n, dtype=np.int64) * (3 << 40),
    }


@pytest.mark.parametrize("n_labels", [2, 3, 10, 256, 1000])
@pytest.mark.parametrize("n", [1, 2, 40, 600])
def test_every_key(n_labels: int, n: int) -> None:
    rng = np.random.default_rng(7)
    for name, keys in key_sets(n).items():
        if n == 600 and n_labels not in {2, 256} and name not in {"random", "exponential"}:
            continue
        check(keys, rng.integers(0, n_labels, len(keys)), n_labels)


@pytest.mark.parametrize("blocks", [1, 2, 3, 7])
@pytest.mark.parametrize(("table", "n_labels"), [(1, 2), (8, 2), (70, 2), (30, 10)])
def test_chosen_sizes(blocks: int, table: int, n_labels: int) -> None:
    rng = np.random.default_rng(blocks)
    keys = np.unique(rng.integers(0, 10**6, 300))
    labels = rng.integers(0, n_labels, len(keys))
    made = memorise_blocks(keys, labels, n_labels, blocks_per_weight=blocks, table_bits=table)
    assert made.blocks_per_weight == blocks
    assert table - 4 < made.table_bits <= table
    assert np.array_equal(exact(made.network, keys), labels)
    found = evaluate_blocks(made.network, keys)
    assert found is not None
    assert np.array_equal(found, labels)


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_any_data(data: st.DataObject) -> None:
    n_labels = data.draw(st.sampled_from([1, 2, 3, 10, 256]))
    top = data.draw(st.sampled_from([40, 1000, (1 << 62) - 1]))
    pairs = data.draw(
        st.dictionaries(st.integers(0, top), st.integers(0, n_labels - 1), min_size=1, max_size=40).map(dict.items)
    )
    keys, labels = np.array(list(pairs), dtype=np.int64).T
    blocks = data.draw(st.sampled_from([0, 1, 2, 4]))
    check(keys, labels, n_labels, **({"blocks_per_weight": blocks} if blocks else {}))


@pytest.mark.parametrize(("n", "n_labels", "most"), [(10_000, 2, 1_900), (3_000, 256, 3_300)])
def test_few_weights(n: int, n_labels: int, most: int) -> None:
    """The referee and the fast evaluation, on keys of the data and on others."""
    rng = np.random.default_rng(n_labels)
    keys = np.unique(rng.integers(0, n * n, n + 50))[:n]
    labels = rng.integers(0, n_labels, n)
    network = check(keys, labels, n_labels)
    assert network.params <= most
    others = rng.integers(0, n * n, 300)
    fast, slow = evaluate_blocks(network, others), exact(network, others)
    assert fast is not None
    assert slow is not None
    assert np.array_equal(fast, slow)


def test_large_and_fast() -> None:
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(0, 10**10, 60_500))[:60_000]
    labels = rng.integers(0, 2, 60_000)
    network = memorise_blocks(keys, labels, 2).network
    assert network.params <= 4_200
    assert network.total_bits <= 1.9 * 60_000
    found = evaluate_blocks(network, keys)
    assert found is not None
    assert np.array_equal(found, labels)


def changed(network: Network, layer: int, entry: int, by: int) -> Network:
    old = network.layers[layer]
    numerators = list(old.numerators)
    numerators[entry] += by
    new = replace(old, numerators=tuple(numerators))
    return Network((*network.layers[:layer], new, *network.layers[layer + 1 :]))


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_changed_weight(blocks: int) -> None:
    """Never a right answer for a wrong network: it is refused, or what is said is what the referee says."""
    rng = np.random.default_rng(blocks)
    keys = np.unique(rng.integers(0, 10**6, 400))
    labels = rng.integers(0, 2, len(keys))
    network = check(keys, labels, 2, blocks_per_weight=blocks)
    places = [(at, i) for at, each in enumerate(network.layers) for i in range(each.params)]
    refused = 0
    for pick in rng.choice(len(places), 60, replace=False):
        layer, entry = places[pick]
        other = changed(network, layer, entry, int(rng.choice([-1, 1, 2])))
        found = evaluate_blocks(other, keys)
        if found is None:
            refused += 1
            continue
        slow = exact(other, keys)
        assert slow is not None
        assert np.array_equal(found, slow)
    assert refused > 30


def test_refusals() -> None:
    keys, labels = np.arange(30, dtype=np.int64), np.arange(30, dtype=np.int64) % 2
    assert evaluate_blocks(memorise_slots(keys, labels, 2, precision="float64").network, keys) is None
    network = memorise_blocks(keys * 4, labels, 2).network
    assert evaluate_blocks(network, np.array([1], dtype=np.int64)) is None, "not a multiple of 4"
    with pytest.raises(CapacityError, match=r"below 2\^62"):
        memorise_blocks(np.array([1 << 62]), np.array([0]), 2)
