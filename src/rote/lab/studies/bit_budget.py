"""Few long weights or many short ones: the second network of bit extraction alone, at a given budget of bits.

Statement: W weights of B bits make at most 2^(W B) functions, so labelling any N keys in any of C ways needs
           W B >= N log2 C (Kajitsuka, Sato 2025, bit complexity).
What is measured: for N random keys the weights and the widest weight of variant A with `items` keys in a group, of
variant C with `items` blocks in a weight, and of variant B, whose weights fit a float (`items` = 24 or 53). Every key
is run through the network in exact arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rote.errors import UsageError
from rote.lab.studies._params import Params, chosen
from rote.referee.exact import Values, evaluate, labels_of
from rote.solvers.exact.blocks import memorise_blocks
from rote.solvers.exact.digits import memorise_digits
from rote.solvers.exact.network import Network
from rote.solvers.exact.slots import memorise_slots

__all__ = ["PARAMS", "run", "seconds"]

PARAMS: Params = {
    "variant": (str, "A"),
    "items": (int, 1),
    "n_facts": (int, 2000),
    "key_bits": (int, 21),
    "n_labels": (int, 2),
}
_FLOATS = {24: "float32", 53: "float64"}


def seconds(params: Mapping[str, Any]) -> float:
    """About how long one run takes."""
    return 0.2 + 4e-4 * int(params["n_facts"])


def run(p: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """One row: weights, bits, and the counting bound at that width."""
    variant = chosen("variant", p["variant"], ("A", "B", "C"))
    if p["n_facts"] < 1 or p["n_facts"] > 1 << p["key_bits"] or p["key_bits"] > 46:
        raise UsageError(f"there are no {p['n_facts']} different keys of {p['key_bits']} bits (at most 46).")
    if p["items"] < 1:
        raise UsageError(f"items must be at least 1, got {p['items']}.")
    rng = np.random.default_rng([seed, 0])
    keys = np.sort(rng.choice(1 << p["key_bits"], size=p["n_facts"], replace=False)).astype(np.int64)
    labels = rng.integers(p["n_labels"], size=p["n_facts"])
    network = _network(variant, p["items"], keys, labels, p["n_labels"])
    right = labels_of(evaluate(network, [Values(keys)])[0]) == labels
    info = p["n_facts"] * math.log2(p["n_labels"])
    return [
        {
            **p,
            "source": f"build:{variant}",
            "params": network.params,
            "max_bits": network.max_bits,
            "total_bits": network.total_bits,
            "depth": network.depth,
            "counting_params": info / network.max_bits,
            "over_counting": network.params * network.max_bits / info,
            "share_of_facts": float(right.mean()),
        }
    ]


def _network(variant: str, items: int, keys: Any, labels: Any, n_labels: int) -> Network:
    if variant == "A":
        return memorise_digits(keys, labels, n_labels, items=items).network
    if variant == "C":
        return memorise_blocks(keys, labels, n_labels, blocks_per_weight=items).network
    if items not in _FLOATS:
        raise UsageError(f"variant B has weights of 24 or 53 bits, got items = {items}.")
    return memorise_slots(keys, labels, n_labels, precision=_FLOATS[items]).network  # type: ignore[arg-type]
