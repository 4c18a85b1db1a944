"""Studies of one attention layer, and of depth."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from study_run import run

from rote.config import Architecture
from rote.data import random_vectors
from rote.errors import RoteError
from rote.lab.studies import depth_rank, layer_capacity, layer_robustness
from rote.lab.studies._layers import make, margin, quantised, recall, saturated
from rote.solvers.vector_layer import predict
from rote.training import ModelSpec, initial_weights
from rote.training.forward import token_logits

SMALL = {"n_heads": 3, "context": 4, "d_model": 8, "d_head": 4, "n_classes": 4}


@pytest.mark.parametrize("sharing", [0.0, 1.0])
@pytest.mark.parametrize("method", ["saturation", "random_features", "train"])
def test_the_same_layer_in_three_ways(method: str, sharing: float) -> None:
    rows = run("layer_robustness", {**SMALL, "method": method, "sharing": sharing, "steps": 200}, 1)
    made = rows[0]
    assert made["n_facts"] == made["bound"] == 10
    assert made["share_of_facts"] == 1.0
    assert made["margin"] > 0
    assert made["params"] == 3 * 8 * (4 + 4 + 4)
    assert (made["saturated"] > 0.5) or method != "saturation"
    noise = {row["noise"]: row["share_of_facts"] for row in rows if row["test"] == "noise"}
    assert list(noise) == sorted(layer_robustness.NOISE)
    assert noise[min(noise)] == 1.0
    assert noise[max(noise)] < 1.0
    assert {row["test"] for row in rows} == {"made", "float32", "bfloat16", "int8", "int4", "noise"}


def test_training_reads_contexts_as_the_referee_does() -> None:
    rng = np.random.default_rng(0)
    for sharing in ("own", "shared"):
        table = random_vectors(9, 4, 8, rng=rng, sharing=sharing, distribution="gaussian", n_classes=4)
        layer = make("train", table, 3, 4, steps=300, seed=0, stop=True)
        assert recall(layer.weights, table) == 1.0
        assert layer.steps < 300
        logits = predict(layer.weights, np.array(table.contexts), np.array(table.queries))
        assert (logits.argmax(axis=1) == table.targets).all()
        assert margin(layer.weights, table) > 0
        assert 0 <= saturated(layer.weights, table) <= 1


def test_int8_has_255_values_a_row() -> None:
    table = random_vectors(9, 4, 8, rng=np.random.default_rng(0), n_classes=4)
    layer = make("train", table, 2, 4, steps=5, seed=0)
    rounded = quantised(layer.weights, "int8").W_Q
    scale = np.abs(np.asarray(layer.weights.W_Q)).max(axis=-1, keepdims=True) / 127
    steps = np.asarray(rounded) / scale
    assert np.allclose(steps, np.rint(steps))
    assert np.abs(steps).max() <= 127.5
    with pytest.raises(RoteError, match="generator"):
        quantised(layer.weights, "noise")


@pytest.mark.parametrize(
    ("contexts", "own_rows", "expected"), [(1, 0, 10), (2, 0, 20), (3, 0, 24), (0, 0, 24), (0, 1, 24)]
)
def test_the_rank_grows_with_the_number_of_contexts(contexts: int, own_rows: int, expected: int) -> None:
    # H = 3, n = 4, d = 8: K (H (n - 1) + 1) until H d = 24.
    (row,) = run("layer_capacity", {**SMALL, "contexts": contexts, "own_rows": own_rows}, 0)
    assert row["capacity"] == row["limit"] == expected
    assert row["shared_upper"] == 10
    assert row["own_upper"] == 24


def test_capacities_of_the_methods() -> None:
    found = {}
    for method in ("saturation", "random_features", "train"):
        (row,) = run("layer_capacity", {**SMALL, "method": method, "contexts": 1, "steps": 150, "tolerance": 0.2}, 0)
        found[method] = row["capacity"]
    assert found["saturation"] == 10
    assert found["random_features"] == 10
    assert found["train"] >= 10


def test_longer_tables_begin_with_the_shorter_ones() -> None:
    for contexts, own_rows in ((1, 0), (2, 0), (0, 0), (0, 2)):
        p = {**SMALL, "contexts": contexts, "own_rows": own_rows}
        short, long = layer_capacity.draw(p, 5, 0), layer_capacity.draw(p, 9, 0)
        assert (short.queries == long.queries[:5]).all()
        assert (short.targets == long.targets[:5]).all()
        assert (short.contexts == (long.contexts if long.shared else long.contexts[:5])).all()


@pytest.mark.parametrize(
    ("study", "params", "words"),
    [
        ("layer_capacity", {"method": "magic"}, "method"),
        ("layer_capacity", {"own_rows": 9, "context": 4}, "at most 4"),
        ("layer_capacity", {"own_rows": 1, "contexts": 2}, "not both"),
        ("layer_capacity", {"n_heads": 0}, "at least 1"),
        ("layer_robustness", {"load": 0.0}, "above 0"),
        ("layer_robustness", {"load": 2.0}, "Theorem 1 holds"),
        ("layer_robustness", {"method": "train", "steps": 0}, "at least 1 step"),
        ("depth_rank", {"tolerance": 2.0}, "between 0 and 1"),
    ],
)
def test_refusals_are_sentences(study: str, params: dict[str, object], words: str) -> None:
    with pytest.raises(RoteError, match=words):
        run(study, params, 0)


def test_head_outputs_are_those_of_the_trainer() -> None:
    arch = Architecture(2, 5, 5, 3, 7, n_layers=3)
    spec = ModelSpec("transformer", arch)
    drawn = initial_weights(spec, np.random.default_rng(0))
    w = {name: torch.from_numpy(value) for name, value in drawn.items()}
    contexts = torch.from_numpy(np.random.default_rng(1).integers(7, size=(11, 3)))
    stream = depth_rank.head_outputs(spec, w, contexts)[-1][1]
    wanted = token_logits(spec, {name: value[None] for name, value in w.items()}, contexts.T[None])[0].T
    assert torch.allclose(stream @ w["W_U"].T, wanted)
    with pytest.raises(RoteError, match="attention-only"):
        depth_rank.head_outputs(ModelSpec("transformer", arch.replace(d_mlp=4)), w, contexts)


def test_a_row_for_every_layer() -> None:
    rows = run("depth_rank", {"n_layers": 2, "n_heads": 2, "d_model": 4, "vocab": 8, "n_facts": 40, "steps": 100}, 0)
    assert [(row["weights"], row["layer"]) for row in rows] == [
        ("trained", 1), ("trained", 2), ("fresh", 1), ("fresh", 2)
    ]  # fmt: skip
    for row in rows:
        assert 1 <= row["rank"] <= row["rank_limit"] <= row["columns"] == 8
        assert 1 <= row["stable_rank"] <= row["rank"]
