"""Studies of bit extraction: sizes, and what rounding does to the weights."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from study_run import run

from rote.errors import RoteError
from rote.lab.studies import exact_size
from rote.lab.studies.rounded_weights import round_float, round_network
from rote.solvers.exact.network import Assembler, Network


@pytest.mark.parametrize("task", ["next_token", "seq2seq"])
@pytest.mark.parametrize("variant", ["A", "B", "C"])
def test_every_network_recalls_all_and_respects_the_lower_bounds(task: str, variant: str) -> None:
    params = {"task": task, "variant": variant, "n_facts": 60, "context": 5, "vocab": 50}
    (row,) = run("exact_size", params, 3)
    assert row["share_of_facts"] == 1.0
    assert row["params"] >= max(row["vc_params"], row["counting_params"])
    assert row["total_bits"] >= row["information_bits"]
    assert (row["n_assigned"] > 60) == (task == "seq2seq")
    assert run("exact_size", params, 3) == [row], "a pure function of its arguments"
    assert exact_size.seconds(row) > 0


def test_labels_of_equal_tokens_agree() -> None:
    contexts, labels = exact_size.draw("seq2seq", 30, 6, 4, 3, np.random.default_rng(0))
    for tokens, given in zip(contexts, labels, strict=True):
        assert len(set(zip(tokens.tolist(), given.tolist(), strict=True))) == len(set(tokens.tolist()))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"variant": "D"}, "variant"),
        ({"variant": "A", "precision": "float64"}, "variant A needs"),
        ({"n_labels": 1}, "n_labels must be at least 2"),
        ({"n_fact": 1}, "n_facts"),
        ({"n_facts": "many"}, "whole number"),
        ({"n_facts": -1}, "at least"),
    ],
)
def test_refusals_are_sentences(params: dict[str, object], words: str) -> None:
    with pytest.raises(RoteError, match=words):
        run("exact_size", params, 0)


def _one_weight(weight: Fraction) -> Network:
    made = Assembler(["x"])
    made.layer({"y": {"x": weight}})
    return made.network()


@pytest.mark.parametrize(
    ("weight", "bits", "rounded"),
    [
        (Fraction(13, 16), 4, Fraction(13, 16)),
        (Fraction(13, 16), 3, Fraction(12, 16)),  # half way between 12 and 14: to even
        (Fraction(15, 16), 3, Fraction(1)),
        (Fraction(-11, 8), 2, Fraction(-12, 8)),
        (Fraction(5), 1, Fraction(4)),
    ],
)
def test_dyadic_weights_are_rounded_to_nearest(weight: Fraction, bits: int, rounded: Fraction) -> None:
    layer = round_network(_one_weight(weight), bits).layers[0]
    assert Fraction(layer.numerators[0], 1 << int(layer.shifts[0])) == rounded
    assert round_float(np.array([float(weight)]), bits)[0] == float(rounded)


def test_rounding_floats_agrees_with_float32() -> None:
    values = np.random.default_rng(0).standard_normal(1000)
    assert (round_float(values, 24) == values.astype(np.float32)).all()
    assert (round_float(values, 53) == values).all()


@pytest.mark.parametrize("model", ["A", "B", "B32", "C"])
def test_bit_extraction_survives_from_enough_bits_on(model: str) -> None:
    rows = run("rounded_weights", {"model": model, "n_facts": 60, "context": 3, "vocab": 8}, 0)
    exact = {row["bits"]: row["share_of_facts"] for row in rows if row["arithmetic"] == "exact"}
    assert exact[max(exact)] == 1.0
    assert exact[2] < 0.6
    formats = {row["format"]: row["share_of_facts"] for row in rows if row["arithmetic"] == "format"}
    if model.startswith("B"):
        assert formats["float64"] == 1.0
    if model == "B32":
        assert formats["float32"] == 1.0


@pytest.mark.parametrize("model", ["argmax_fit", "train"])
def test_fits_and_training_need_few_bits(model: str) -> None:
    params = {"model": model, "n_facts": 60, "context": 3, "vocab": 8, "n_heads": 6, "d_model": 6, "steps": 400}
    rows = run("rounded_weights", params, 0)
    shares = {row["bits"]: row["share_of_facts"] for row in rows}
    assert shares[53] == 1.0
    assert shares[24] == 1.0
    assert shares[1] < 1.0


def test_one_bit_at_least() -> None:
    with pytest.raises(RoteError, match="at least 1 significant bit"):
        round_network(_one_weight(Fraction(1)), 0)


@pytest.mark.parametrize(("variant", "items"), [("A", 1), ("A", 4), ("B", 24), ("B", 53), ("C", 2)])
def test_a_budget_of_bits(variant: str, items: int) -> None:
    (row,) = run("bit_budget", {"variant": variant, "items": items, "n_facts": 200}, 0)
    assert row["share_of_facts"] == 1.0
    assert row["params"] >= row["counting_params"]
    assert row["over_counting"] >= 1
    if variant == "B":
        assert row["max_bits"] <= items


def test_longer_weights_are_fewer() -> None:
    found = [run("bit_budget", {"variant": "A", "items": items, "n_facts": 500}, 0)[0] for items in (1, 2, 4)]
    assert [row["max_bits"] for row in found] == sorted(row["max_bits"] for row in found)
    assert [row["params"] for row in found] == sorted((row["params"] for row in found), reverse=True)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"variant": "B", "items": 8}, "24 or 53"),
        ({"items": 0}, "items must be at least 1"),
        ({"n_facts": 100, "key_bits": 4}, "different keys"),
    ],
)
def test_budgets_that_cannot_be(params: dict[str, object], words: str) -> None:
    with pytest.raises(RoteError, match=words):
        run("bit_budget", params, 0)
