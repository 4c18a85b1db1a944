"""How many weights bit extraction takes (Kajitsuka, Sato 2025): variants A, B and C, and what no network can go below.

Every network is built and run on all of its sequences in exact arithmetic. The rows have the number of weights that are
not zero, the bits of the widest one and of all together, and the two lower bounds: counting (W weights of B bits make
at most 2^(W B) functions) and VC (16 W^2 + 8 W >= labels, for real weights; for a label per position the paper proves
the order only, and for hardmax attention, so there the number is a yardstick).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from rote.constructions._bits import lower_bounds
from rote.data import random_sequences
from rote.data._arrays import IntArray
from rote.errors import UsageError
from rote.lab.studies._params import Params, chosen
from rote.solvers.exact.memorise import memorise_sequences
from rote.solvers.exact.transformer import Precision, Task, Variant

__all__ = ["PARAMS", "draw", "run", "seconds"]


PARAMS: Params = {
    "task": (str, "next_token"),
    "variant": (str, "A"),
    "precision": (str, "exact"),
    "n_facts": (int, 1000),
    "context": (int, 16),
    "vocab": (int, 1000),
    "n_labels": (int, 2),
}


def seconds(params: Mapping[str, Any]) -> float:
    """About how long one run takes."""
    labels = int(params["n_facts"]) * (int(params["context"]) if params["task"] == "seq2seq" else 1)
    return 0.1 + 2e-4 * labels


def run(p: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """One row: the size of one network, and the share of facts that it recalls."""
    import torch

    from rote.models.kinds.exact_transformer import ExactModule

    task = cast(Task, chosen("task", p["task"], ("next_token", "seq2seq")))
    variant = cast(Variant, chosen("variant", p["variant"], ("A", "B", "C")))
    precision = cast(Precision, chosen("precision", p["precision"], ("exact", "float64", "float32")))
    if precision != "exact" and variant != "B":
        raise UsageError(f"variant {variant} needs weights of hundreds of bits; set precision = 'exact', or variant B.")
    if p["n_labels"] < 2:
        raise UsageError(f"n_labels must be at least 2, got {p['n_labels']}.")
    rng = np.random.default_rng([seed, 0])
    contexts, labels = draw(task, p["n_facts"], p["context"], p["vocab"], p["n_labels"], rng)
    network = memorise_sequences(
        contexts, labels, p["n_labels"], p["vocab"], tuple(range(p["n_labels"])), precision=precision, variant=variant,
        with_positions=False, rng=rng,
    )  # fmt: skip
    model = network.transformer
    right = ExactModule(model)(torch.from_numpy(contexts)).numpy() == labels
    # A fact is a sequence; with a label for every position all of its labels must come back.
    share = float((right if task == "next_token" else right.all(axis=1)).mean())
    count = int(network.report.get("n_pairs", len(contexts)))
    least = lower_bounds(model, count, p["n_labels"])
    return [
        {
            **p,
            "source": f"build:{variant}" + ("" if precision == "exact" else f":{precision}"),
            "n_assigned": count,
            "params": model.params,
            "max_bits": model.max_bits,
            "total_bits": model.total_bits,
            "depth": model.depth,
            "width": model.width,
            "information_bits": least["information_bits"],
            "bits_per_param": least["information_bits"] / model.params,
            "capacity": p["n_facts"],
            "counting_params": least["counting_params"],
            "vc_params": least["vc_params"],
            "over_vc": least["ratio_vc"],
            "naive_params": 3 * count,
            "bits_over_information": least["ratio_bits"],
            "share_of_facts": share,
        }
    ]


def draw(
    task: Task, n_facts: int, context: int, vocab: int, n_labels: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Sequences (T, n) that differ as bags, and labels (T,) or (T, n), which agree where tokens of a sequence do."""
    table = random_sequences(n_facts, context, vocab, n_labels, rng=rng)
    contexts = np.array(table.contexts)
    if task == "next_token":
        return contexts, np.array(table.targets) - vocab
    keys = contexts + vocab * np.arange(n_facts)[:, None]
    distinct, index = np.unique(keys, return_inverse=True)
    return contexts, rng.integers(n_labels, size=len(distinct))[index.reshape(keys.shape)]
