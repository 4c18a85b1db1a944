"""Bit extraction from tables: every fact recalled, nothing above the promised size, bad data refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import rote
from rote.data import FactTable, SequenceTable, Vocabulary, random_facts, random_sequences, random_vectors
from rote.errors import AssumptionError, CapacityError, CheckpointError, DataError, UsageError
from rote.models._onnx import onnx_bytes, onnx_labels
from rote.models.kinds.exact_transformer import ExactTransformerModel
from rote.solvers.exact.transformer import ExactTransformer, Precision, Variant
from rote.theorems._kajitsuka import seq2seq_net

NEXT = "kajitsuka2025_next_token"
POSITIONS = "kajitsuka2025_seq2seq"


def exact_of(memory: rote.Memory) -> ExactTransformer:
    assert isinstance(memory.model, ExactTransformerModel)
    return memory.model.exact


def label_numbers(targets: Any, memory: rote.Memory) -> Any:
    """Targets as the numbers that the network says."""
    return np.searchsorted(exact_of(memory).labels, targets)


def random_positions(t: int, n: int, vocab: int, seed: int, classes: int | None = None) -> SequenceTable:
    rng = np.random.default_rng(seed)
    table = random_sequences(t, n, vocab - 1, 1, rng=rng)
    labels = rng.integers(classes or vocab, size=(t, vocab))
    return SequenceTable(table.contexts, labels[np.arange(t)[:, None], table.contexts], table.vocabulary)


@pytest.mark.parametrize("variant", ["A", "B", "C"])
@pytest.mark.parametrize(
    ("t", "n", "vocab", "classes"), [(1, 1, 2, 1), (40, 3, 9, 5), (700, 8, 300, 2), (500, 5, 40, 30)]
)
def test_next_token(t: int, n: int, vocab: int, classes: int, variant: str) -> None:
    facts = random_sequences(t, n, vocab, classes, rng=np.random.default_rng(t))
    memory = rote.build(facts, rote.BitExtraction(variant=variant))
    c = memory.certificate
    assert c["recall"] == {"exact": 1.0}
    assert c["min_margin"] == {"exact": 0.5}
    assert c["params"] == sum(net.params for net in (exact_of(memory).first, exact_of(memory).second)) + 2
    assert c["max_bits"] * c["params"] >= c["total_bits"] >= c["lower_bounds"]["information_bits"]
    # Order does not count: a shuffled context has the same label.
    shuffled = np.random.default_rng(0).permuted(facts.contexts, axis=1)
    said = memory.module(torch.from_numpy(shuffled)).numpy()
    assert (said == label_numbers(facts.targets, memory)).all()


@pytest.mark.parametrize(("precision", "t", "n", "vocab"), [("float64", 900, 6, 200), ("float32", 250, 4, 40)])
@pytest.mark.parametrize("with_positions", [False, True])
def test_floats_are_exact(precision: str, t: int, n: int, vocab: int, with_positions: bool) -> None:
    rng = np.random.default_rng(t)
    facts = random_facts(t, n, vocab, rng=rng) if with_positions else random_sequences(t, n, vocab, 3, rng=rng)
    memory = rote.build(facts, rote.BitExtraction(with_positions=with_positions), dtype=precision)
    assert memory.certificate["recall"] == {precision: 1.0, "exact": 1.0}
    assert memory.certificate["padded_to"] == (8 if n == 6 else None)
    wanted = label_numbers(facts.targets, memory)
    with torch.no_grad():
        assert (memory.module(torch.from_numpy(facts.contexts.copy())).numpy() == wanted).all()
    content = onnx_bytes(exact_of(memory))
    assert (onnx_labels(content, facts.contexts) == wanted).all()


@pytest.mark.parametrize("variant", ["A", "C"])
@pytest.mark.parametrize(("t", "n", "vocab", "classes"), [(1, 3, 4, 2), (60, 6, 50, 9), (120, 12, 30, 2)])
def test_a_label_for_every_position(t: int, n: int, vocab: int, classes: int, variant: str) -> None:
    facts = random_positions(t, n, vocab, t, classes)
    memory = rote.build(facts, options={"variant": variant})
    c = memory.certificate
    assert c["construction"] == POSITIONS
    assert c["recall"] == {"exact": 1.0}
    if variant == "A":
        worst = seq2seq_net(t, n, facts.vocab, max(2, facts.n_targets))
        assert worst is not None
        assert c["params"] <= worst.weights


def test_positions_in_floats_and_with_order() -> None:
    facts = random_positions(50, 5, 20, 1)
    for dtype, with_positions in (("float64", False), ("float64", True), ("exact", True)):
        memory = rote.build(facts, rote.SequenceBitExtraction(with_positions=with_positions), dtype=dtype)
        assert set(memory.certificate["recall"].values()) == {1.0}
    memory = rote.build(facts, POSITIONS, dtype="float64")
    said = onnx_labels(onnx_bytes(exact_of(memory)), facts.contexts)
    assert (said == label_numbers(facts.targets, memory)).all()


@pytest.mark.parametrize("sharing", [0.0, 1.0, 0.5])
def test_real_vectors(sharing: float) -> None:
    facts = random_vectors(80, 4, 3, rng=np.random.default_rng(2), n_classes=7, sharing=sharing)
    memory = rote.build(facts, rote.BitExtraction(delta=1e-9, radius=10.0))
    assert memory.certificate["recall"] == {"exact": 1.0}
    assert memory.certificate["report"]["identify"] == "near"


def test_vectors_that_break_the_assumption() -> None:
    rng = np.random.default_rng(0)
    good = random_vectors(10, 3, 2, rng=rng, n_classes=2)
    with pytest.raises(AssumptionError, match=r"at least delta = 5 apart; example \d+, .* and example \d+, .* are"):
        rote.build(good, rote.BitExtraction(delta=5.0))
    with pytest.raises(AssumptionError, match=r"norm at most r = 0\.1; example \d+"):
        rote.build(good, rote.BitExtraction(radius=0.1))
    contexts, queries = good.contexts.copy(), good.queries.copy()
    contexts[7], queries[7] = np.roll(contexts[2], 1, axis=0), queries[2]
    twice = rote.VectorTable(contexts, queries, good.targets, 2)
    with pytest.raises(AssumptionError, match="examples 3 and 8 have the same vectors up to order"):
        rote.build(twice, NEXT)
    for value in (float("nan"), 0.0, -1.0, float("inf")):
        with pytest.raises(UsageError, match="delta must be a finite number above 0"):
            rote.build(good, rote.BitExtraction(delta=value))
        with pytest.raises(UsageError, match="radius must be a finite number above 0"):
            rote.build(good, rote.BitExtraction(radius=value))
    with pytest.raises(AssumptionError, match="real targets"):
        rote.build(random_vectors(5, 2, 2, rng=rng), NEXT)


def test_facts_that_differ_only_by_order() -> None:
    words = Vocabulary(["a", "b", "c", "x", "y"])
    facts = FactTable(np.array([[0, 1, 2], [0, 0, 1], [2, 0, 1]]), np.array([3, 4, 4]), words)
    with pytest.raises(
        AssumptionError,
        match=r"fact 3: \(c, a, b\) -> y \(differs only by order from fact 1; .* built with positions",
    ):
        rote.build(facts, NEXT)
    assert rote.build(facts, rote.BitExtraction(with_positions=True)).certificate["recall"] == {"exact": 1.0}


def test_unequal_labels_of_equal_tokens() -> None:
    words = Vocabulary(["a", "b", "x", "y"])
    facts = SequenceTable(np.array([[0, 1, 0]]), np.array([[2, 3, 3]]), words)
    with pytest.raises(AssumptionError, match="sequence 1 has 'a' at positions 1 and 3 with labels 'x' and 'y'"):
        rote.build(facts, POSITIONS)
    assert rote.build(facts, rote.SequenceBitExtraction(with_positions=True)).certificate["recall"] == {"exact": 1.0}


def test_what_does_not_fit_together() -> None:
    facts = random_sequences(30, 4, 20, 2, rng=np.random.default_rng(0))
    with pytest.raises(UsageError, match="hundreds of bits"):
        rote.build(facts, rote.BitExtraction(variant="A"), dtype="float64")
    with pytest.raises(UsageError, match="A, B, C"):
        rote.build(facts, rote.BitExtraction(variant="D"))
    with pytest.raises(UsageError, match="not made for bfloat16"):
        rote.build(facts, NEXT, dtype="bfloat16")
    with pytest.raises(UsageError, match="belongs to kajitsuka2025_next_token, kajitsuka2025_seq2seq"):
        rote.build(facts, "argmax_fit", options={"variant": "A"})
    with pytest.raises(UsageError, match="finds its own n_heads"):
        rote.build(facts, NEXT, n_heads=3)
    with pytest.raises(UsageError, match="sequences"):
        rote.build(facts, POSITIONS)
    with pytest.raises(CapacityError, match="use float64 or exact weights"):
        rote.build(random_sequences(6000, 60, 300, 2, rng=np.random.default_rng(1)), NEXT, dtype="float32")
    with pytest.raises(DataError, match="got 9; the first offender is sequence 2"):
        SequenceTable(np.array([[0, 1], [9, 0]]), np.zeros((2, 2), dtype=int), Vocabulary(["a", "b"]))


@pytest.mark.parametrize(("precision", "variant"), [("exact", "A"), ("exact", "C"), ("float64", "B")])
def test_stored_and_read_back(precision: Precision, variant: Variant, tmp_path: Path) -> None:
    facts = random_sequences(200, 5, 60, 4, rng=np.random.default_rng(7))
    memory = rote.build(facts, rote.BitExtraction(variant=variant), dtype=precision)
    memory.save(tmp_path / "m")
    again = rote.load(tmp_path / "m")
    assert rote.verify(again, facts, dtype=precision).recall == 1.0
    words = [facts.vocabulary.token(int(t)) for t in facts.contexts[11]]
    assert again.ask(*words)[0].token == facts.vocabulary.token(int(facts.targets[11]))
    one, other = exact_of(memory), exact_of(again)
    assert one.first.same(other.first)
    assert one.second.same(other.second)
    assert one.to_dict() == other.to_dict()


def test_a_changed_weight_is_found(tmp_path: Path) -> None:
    facts = random_sequences(150, 4, 40, 2, rng=np.random.default_rng(9))
    rote.build(facts, NEXT).save(tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    tensors = load_file(path)
    tensors["second.limbs"][100] ^= 1
    save_file(tensors, path)
    with pytest.raises(CheckpointError, match="is not what its certificate speaks of"):
        rote.load(tmp_path / "m")


def test_no_more_facts_than_bags() -> None:
    shape = rote.Architecture(1, 8, 1, 1, 2, n_layers=100_000, d_mlp=8)
    for key in (NEXT, POSITIONS):
        assert rote.bounds(rote.Setting(shape, dtype="exact"), only=[key])[0].facts == 2
