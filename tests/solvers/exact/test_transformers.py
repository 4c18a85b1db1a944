"""Whole transformers: every fact recalled, nothing above the promised size, bad data refused by name."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from line_twin import changed, numerator_of, plain
from safetensors.torch import load_file, save_file

import rote
from rote.cli.main import run
from rote.data import FactTable, SequenceTable, Vocabulary, random_facts, random_sequences, random_vectors
from rote.errors import AssumptionError, CapacityError, CheckpointError, DataError, UsageError
from rote.models.onnx_export import onnx_bytes, onnx_labels
from rote.referee.exact_transformer import token_outputs
from rote.referee.labels import label_numbers
from rote.solvers.exact.checkpoint import read_transformer, transformer_arrays
from rote.solvers.exact.memorise import memorise_sequences
from rote.solvers.exact.storage import to_arrays
from rote.solvers.exact.transformer import ExactTransformer, Precision, Variant
from rote.theorems._kajitsuka import next_token_net, seq2seq_net

NEXT = "kajitsuka2025_next_token"
POSITIONS = "kajitsuka2025_seq2seq"


def exact_of(memory: rote.Memory) -> ExactTransformer:
    exact = memory.model.exact
    assert isinstance(exact, ExactTransformer)
    return exact


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
    memory = rote.build(facts, with_=NEXT, variant=variant)
    c = memory.certificate
    assert c["recall"] == {"exact": 1.0}
    assert c["min_margin"] == {"exact": 0.5}
    assert c["params"] == sum(net.params for net in (exact_of(memory).first, exact_of(memory).second)) + 2
    assert c["max_bits"] * c["params"] >= c["total_bits"] >= c["lower_bounds"]["information_bits"]
    # Order does not count: a shuffled context has the same label.
    shuffled = np.random.default_rng(0).permuted(facts.contexts, axis=1)
    assert (
        token_outputs(exact_of(memory), shuffled).labels == label_numbers(facts.targets, exact_of(memory).labels)
    ).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 60), st.integers(1, 5), st.integers(2, 20), st.integers(1, 9), st.integers(0, 3))
def test_no_network_is_larger_than_the_bound_says(t: int, n: int, vocab: int, classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(vocab, size=(t, n))
    _, first = np.unique(np.sort(rows, axis=1), axis=0, return_index=True)
    rows, labels = rows[first], rng.integers(classes, size=len(first))
    made = memorise_sequences(
        rows,
        labels,
        classes,
        vocab,
        tuple(range(classes)),
        precision="exact",
        variant="A",
        with_positions=False,
        rng=rng,
    ).transformer
    assert (token_outputs(made, rows).labels == labels).all()
    worst = next_token_net(len(rows), n, vocab, max(2, classes))
    assert worst is not None
    assert made.params <= worst.weights
    assert made.total_bits <= worst.total_bits


@pytest.mark.parametrize(("precision", "t", "n", "vocab"), [("float64", 900, 6, 200), ("float32", 250, 4, 40)])
@pytest.mark.parametrize("with_positions", [False, True])
def test_floats_are_exact(precision: str, t: int, n: int, vocab: int, with_positions: bool) -> None:
    rng = np.random.default_rng(t)
    facts = random_facts(t, n, vocab, rng=rng) if with_positions else random_sequences(t, n, vocab, 3, rng=rng)
    memory = rote.build(facts, with_=NEXT, dtype=precision, with_positions=with_positions)
    assert memory.certificate["recall"] == {precision: 1.0, "exact": 1.0}
    assert memory.certificate["padded_to"] == (8 if n == 6 else None)
    model = memory.model
    wanted = label_numbers(facts.targets, exact_of(memory).labels)
    with torch.no_grad():
        assert (model(torch.from_numpy(facts.contexts.copy())).numpy() == wanted).all()
    content = onnx_bytes(exact_of(memory))
    assert (onnx_labels(content, facts.contexts) == wanted).all()


@pytest.mark.parametrize("variant", ["A", "C"])
@pytest.mark.parametrize(("t", "n", "vocab", "classes"), [(1, 3, 4, 2), (60, 6, 50, 9), (120, 12, 30, 2)])
def test_a_label_for_every_position(t: int, n: int, vocab: int, classes: int, variant: str) -> None:
    facts = random_positions(t, n, vocab, t, classes)
    memory = rote.build(facts, variant=variant)
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
        memory = rote.build(facts, with_=POSITIONS, dtype=dtype, with_positions=with_positions)
        assert set(memory.certificate["recall"].values()) == {1.0}
    content = onnx_bytes(exact_of(rote.build(facts, with_=POSITIONS, dtype="float64")))
    model = exact_of(rote.build(facts, with_=POSITIONS, dtype="float64"))
    assert (onnx_labels(content, facts.contexts) == label_numbers(facts.targets, model.labels)).all()


@pytest.mark.parametrize("sharing", [0.0, 1.0, 0.5])
def test_real_vectors(sharing: float) -> None:
    facts = random_vectors(80, 4, 3, rng=np.random.default_rng(2), n_classes=7, sharing=sharing)
    memory = rote.build(facts, with_=NEXT, delta=1e-9, radius=10.0)
    assert memory.certificate["recall"] == {"exact": 1.0}
    assert memory.certificate["report"]["identify"] == "near"


def test_vectors_that_break_the_assumption() -> None:
    rng = np.random.default_rng(0)
    good = random_vectors(10, 3, 2, rng=rng, n_classes=2)
    with pytest.raises(AssumptionError, match=r"at least delta = 5 apart; example \d+, .* and example \d+, .* are"):
        rote.build(good, with_=NEXT, delta=5.0)
    with pytest.raises(AssumptionError, match=r"norm at most r = 0\.1; example \d+"):
        rote.build(good, with_=NEXT, radius=0.1)
    contexts, queries = good.contexts.copy(), good.queries.copy()
    contexts[7], queries[7] = np.roll(contexts[2], 1, axis=0), queries[2]
    twice = rote.VectorTable(contexts, queries, good.targets, 2)
    with pytest.raises(AssumptionError, match="examples 3 and 8 have the same vectors up to order"):
        rote.build(twice, with_=NEXT)
    for value in (float("nan"), 0.0, -1.0, float("inf")):
        with pytest.raises(UsageError, match="--delta must be a finite number above 0"):
            rote.build(good, with_=NEXT, delta=value)
        with pytest.raises(UsageError, match="--radius must be a finite number above 0"):
            rote.build(good, with_=NEXT, radius=value)
    with pytest.raises(AssumptionError, match="real targets"):
        rote.build(random_vectors(5, 2, 2, rng=rng), with_=NEXT)


def test_facts_that_differ_only_by_order() -> None:
    words = Vocabulary(["a", "b", "c", "x", "y"])
    facts = FactTable(np.array([[0, 1, 2], [0, 0, 1], [2, 0, 1]]), np.array([3, 4, 4]), words)
    with pytest.raises(
        AssumptionError, match=r"facts 1 \(a, b, c\) and 3 \(c, a, b\) differ only by order.*with-positions"
    ):
        rote.build(facts, with_=NEXT)
    assert rote.build(facts, with_=NEXT, with_positions=True).certificate["recall"] == {"exact": 1.0}


def test_unequal_labels_of_equal_tokens() -> None:
    words = Vocabulary(["a", "b", "x", "y"])
    facts = SequenceTable(np.array([[0, 1, 0]]), np.array([[2, 3, 3]]), words)
    with pytest.raises(AssumptionError, match="sequence 1 has 'a' at positions 1 and 3 with labels 'x' and 'y'"):
        rote.build(facts, with_=POSITIONS)
    assert rote.build(facts, with_=POSITIONS, with_positions=True).certificate["recall"] == {"exact": 1.0}


def test_what_does_not_fit_together() -> None:
    facts = random_sequences(30, 4, 20, 2, rng=np.random.default_rng(0))
    with pytest.raises(UsageError, match="hundreds of bits"):
        rote.build(facts, with_=NEXT, dtype="float64", variant="A")
    with pytest.raises(UsageError, match="A, B or C"):
        rote.build(facts, with_=NEXT, variant="D")
    with pytest.raises(UsageError, match="bfloat16 rounds them"):
        rote.build(facts, with_=NEXT, dtype="bfloat16")
    with pytest.raises(UsageError, match="for bit extraction"):
        rote.build(facts, with_="argmax_fit", variant="A")
    with pytest.raises(UsageError, match="its own depth and width"):
        rote.build(facts, with_=NEXT, n_heads=3)
    with pytest.raises(UsageError, match="sequences"):
        rote.build(facts, with_=POSITIONS)
    with pytest.raises(CapacityError, match="use --precision float64 or exact"):
        rote.build(random_sequences(6000, 60, 300, 2, rng=np.random.default_rng(1)), with_=NEXT, dtype="float32")
    with pytest.raises(DataError, match="sequence 2 has 9 at position 1"):
        SequenceTable(np.array([[0, 1], [9, 0]]), np.zeros((2, 2), dtype=int), Vocabulary(["a", "b"]))


@pytest.mark.parametrize(("precision", "variant"), [("exact", "A"), ("exact", "C"), ("float64", "B")])
def test_stored_and_read_back(precision: Precision, variant: Variant, tmp_path: Path) -> None:
    facts = random_sequences(200, 5, 60, 4, rng=np.random.default_rng(7))
    memory = rote.build(facts, with_=NEXT, dtype=precision, variant=variant)
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
    rote.build(facts, with_=NEXT).save(tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    tensors = load_file(path)
    tensors["second.limbs"][100] ^= 1
    save_file(tensors, path)
    with pytest.raises(CheckpointError, match="the weights were changed"):
        rote.load(tmp_path / "m")
    # Even with a certificate that was made to fit, arrays that do not belong together are refused.
    model = exact_of(rote.build(facts, with_=NEXT))
    arrays = transformer_arrays(model)
    arrays["second.lengths"] = arrays["second.lengths"][:-1]
    with pytest.raises(CheckpointError, match="do not belong together"):
        read_transformer(model.to_dict(), arrays)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("precision", "x"), ("precision", None), ("labels", []), ("labels", [10**30]), ("vocab", 10**30), ("vocab", 1),
        ("positions_seen", 10**30), ("positions_seen", 3), ("context", 1.5), ("context", True), ("task", "other"),
        ("variant", ["A"]), ("digits", {"items": 1}), ("d_in", 2),
    ],
)  # fmt: skip
def test_odd_configurations_are_refused(key: str, value: object) -> None:
    facts = random_sequences(20, 4, 12, 2, rng=np.random.default_rng(3))
    model = exact_of(rote.build(facts, with_=NEXT))
    with pytest.raises(CheckpointError, match="build it again"):
        read_transformer({**model.to_dict(), key: value}, transformer_arrays(model))


def test_no_more_facts_than_bags() -> None:
    shape = rote.Architecture(1, 8, 1, 1, 2, n_layers=100_000, d_mlp=8)
    for key in (NEXT, POSITIONS):
        assert rote.bounds(rote.Setting(shape, dtype="exact"), only=[key])[0].facts == 2


def test_changed_weights_lose_facts_or_change_nothing() -> None:
    """Whatever weight is changed, the referee says what the plain evaluation says."""
    facts = random_sequences(40, 3, 12, 2, rng=np.random.default_rng(3))
    model = exact_of(rote.build(facts, with_=NEXT))
    rng = np.random.default_rng(0)
    lost = 0
    for entry in rng.permutation(model.second.params)[:25]:
        second = changed(model.second, int(entry), 3 * numerator_of(model.second, int(entry)) + 1)
        other = read_transformer(model.to_dict(), {**transformer_arrays(model), **to_arrays("second", second)})
        found = token_outputs(other, facts.contexts).labels
        for row in rng.integers(40, size=3):
            values = [plain(model.first, [Fraction(int(t))])[0] for t in facts.contexts[row]]
            out = plain(second, [sum(values, Fraction(0)) / len(values)])[0]
            wanted = int(out) if out.denominator == 1 and out >= 0 else -1
            assert found[row] == wanted
        lost += int((found != label_numbers(facts.targets, model.labels)).any())
    assert lost > 10


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "facts.csv"
    rows = ["c1,c2,target"] + [f"a{i},b{j},y{(i * j) % 3}" for i in range(12) for j in range(12)]
    source.write_text("\n".join(rows) + "\n")
    for name, options in (
        ("exact", ["--precision", "exact", "--variant", "C"]),
        ("floats", ["--precision", "float64"]),
        ("order", ["--with-positions"]),
    ):
        assert run(["build", str(source), "-o", str(tmp_path / name), "--with", NEXT, *options, "--json"]) == 0
        c = json.loads(capsys.readouterr().out)
        assert c["facts"] == 144
        assert {"params", "max_bits", "total_bits", "depth"} <= set(c)
        assert run(["verify", str(tmp_path / name), str(source), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["recall"] == 1.0
        assert run(["ask", str(tmp_path / name), "a2", "b2"]) == 0
        assert capsys.readouterr().out.strip() == "y1"
    assert run(["export", str(tmp_path / "floats"), str(source), "-o", str(tmp_path / "m.onnx"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recall"] == 1.0
    assert (tmp_path / "m.onnx").stat().st_size > 0
    assert run(["export", str(tmp_path / "exact"), str(source), "-o", str(tmp_path / "e.onnx")]) == 2
    assert "of floats" in capsys.readouterr().err
    assert not (tmp_path / "e.onnx").exists()


def test_command_line_for_sequences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "tags.csv"
    source.write_text("words,tags\nthe cat sat,D N V\na dog,D N\nsat the dog,V D N\n")
    model = str(tmp_path / "m")
    built = ["build", str(source), "-o", model, "--with", POSITIONS, "--tokens", "words"]
    assert run(built) == 0
    assert "3 of 3 facts recalled" in capsys.readouterr().out
    assert run(["verify", model, str(source)]) == 0
    assert run(["ask", model, "the cat sat"]) == 0
    assert capsys.readouterr().out.strip().endswith("D  N  V")
    cells = tmp_path / "cells.csv"
    cells.write_text("a,b,x,y\n1,2,p,q\n2,3,q,q\n")
    assert run(["build", str(cells), "-o", str(tmp_path / "c"), "--with", POSITIONS]) == 0
    source.write_text("words,tags\nthe cat sat,D N\n")
    assert run([*built[:3], str(tmp_path / "n"), *built[4:]]) == 2
    assert "3 tokens have 2 labels" in capsys.readouterr().err
