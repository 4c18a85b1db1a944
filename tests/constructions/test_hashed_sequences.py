"""Hashed tables of sequences: a label for every position, in the formats that people run, for any sequences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rote
from rote.data import SequenceTable, Vocabulary
from rote.errors import AssumptionError

FORMATS = ("float64", "float32", "float16", "bfloat16")


def _table(contexts: np.ndarray, classes: int, rng: np.random.Generator) -> SequenceTable:
    tokens = max(classes, int(contexts.max()) + 1)
    words = Vocabulary([f"t{i}" for i in range(tokens)])
    return SequenceTable(contexts, rng.integers(classes, size=contexts.shape), words)


def _sequences(kind: str, rng: np.random.Generator) -> SequenceTable:
    if kind == "one token again and again":
        return _table(np.array([[0] * 6, [1] * 6, [0, 1] * 3, [1, 0] * 3]), 5, rng)
    if kind == "one position":
        return _table(rng.permutation(70)[:, None], 9, rng)
    if kind == "one sequence":
        return _table(np.array([[3, 3, 1, 0]]), 4, rng)
    if kind == "one answer":
        return _table(rng.integers(4, size=(20, 4)) * 0 + rng.permutation(20)[:, None], 1, rng)
    if kind == "near duplicates":
        return _table(np.eye(20, dtype=int), 3, rng)
    if kind == "long":
        return _table(rng.integers(3, size=(6, 100)), 2, rng)
    return _table(np.unique(rng.integers(30, size=(150, 4)), axis=0), 30, rng)


KINDS = ("one token again and again", "one position", "one sequence", "one answer", "near duplicates", "long", "random")


@pytest.mark.parametrize("kind", KINDS)
def test_every_label_of_every_sequence_comes_out(kind: str) -> None:
    rng = np.random.default_rng(7)
    for dtype in FORMATS if kind == "random" else FORMATS[2:]:
        table = _sequences(kind, rng)
        memory = rote.build(table, with_="hashed_sequences", dtype=dtype, rng=3)
        # A forward pass of its own: token by token, head by head, in numpy.
        said = _said(memory.model, table)
        assert (said == table.targets).all(), (kind, dtype)
        assert memory.certificate["recall"][dtype] == 1.0


def _said(model: object, table: SequenceTable) -> np.ndarray:
    """Answers by plain float64 arithmetic, written down from the formulas at the top of the model's file."""
    module, words = model.module, model.words  # type: ignore[attr-defined]
    w = {name: p.detach().double().numpy() for name, p in module.named_parameters()}
    heads, rows = module.arch.n_heads, {token: i for i, token in enumerate(words.inputs)}
    said = np.zeros_like(table.targets)
    for row, sequence in enumerate(table.contexts.tolist()):
        x = np.stack([w["W_E"][rows[token]] for token in sequence]) + w["W_pos"]
        for place in range(len(sequence)):
            parts = []
            for q, k, v in zip(*(np.split(w[name], heads) for name in ("W_Q", "W_K", "W_V")), strict=True):
                scores = (x @ k.T) @ (q @ x[place])
                weights = np.exp(scores - scores.max())
                parts.append(v @ (weights / weights.sum() @ x))
            stream = np.append(np.concatenate(parts), 1.0)
            for i in range(module.arch.n_layers):
                stream = w[f"layers.{i}.weight"] @ stream
                if i < module.arch.n_layers - 1:
                    stream = np.maximum(stream, 0.0)
            said[row, place] = words.labels[int(np.argmax(stream))]
    return said


def test_equal_sequences_with_other_labels_are_refused_by_number() -> None:
    words = Vocabulary(["a", "b"])
    table = SequenceTable(np.array([[0, 1], [1, 1], [0, 1]]), np.array([[0, 0], [1, 1], [0, 1]]), words)
    with pytest.raises(AssumptionError, match="sequence 3 has the tokens of sequence 1 and other labels"):
        rote.build(table, with_="hashed_sequences")
    same = SequenceTable(np.array([[0, 1], [1, 1], [0, 1]]), np.array([[0, 0], [1, 1], [0, 0]]), words)
    assert rote.build(same, with_="hashed_sequences").certificate["recall"]["float32"] == 1.0


def test_what_is_planned_is_what_is_written(tmp_path: Path) -> None:
    table = _sequences("random", np.random.default_rng(1))
    memory = rote.build(table, with_="hashed_sequences", dtype="bfloat16").save(tmp_path / "m")
    assert memory.certificate["params"] == sum(p.numel() for p in memory.model.module.parameters())
    again = rote.load(tmp_path / "m")
    first = table.contexts[0]
    answers = again.ask(*(table.vocabulary.token(int(i)) for i in first))
    assert [answer.token for answer in answers] == [table.vocabulary.token(int(i)) for i in table.targets[0]]
    exported = rote.export(tmp_path / "m", tmp_path / "m.onnx", table)
    assert exported["n_failed"] == 0
