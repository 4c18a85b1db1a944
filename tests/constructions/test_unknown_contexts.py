"""Bit extraction that says unknown: every fact still has its label, and contexts that are no facts are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rote
from rote.data import FactTable, SequenceTable, Vocabulary, random_facts, random_vectors, unknown_contexts
from rote.errors import CapacityError, CheckpointError, UsageError
from rote.models.kinds.exact_transformer import ExactTransformerModel


def built(table: Any, **options: Any) -> rote.Memory:
    key = "kajitsuka2025_seq2seq" if isinstance(table, SequenceTable) else "kajitsuka2025_next_token"
    return rote.build(table, key, options=options)


def missed(memory: rote.Memory, contexts: np.ndarray) -> int:
    """Contexts that are answered though they are no facts."""
    said = memory.module(torch.from_numpy(contexts)).reshape(len(contexts), -1)
    return int((said > 0).all(dim=1).sum())


def test_the_first_label_is_no_answer_to_unknown_contexts() -> None:
    table = random_facts(200, 3, 25, rng=np.random.default_rng(0))
    sure, plain = built(table, with_positions=True, unknown=20), built(table, with_positions=True)
    others = unknown_contexts(table, 300, np.random.default_rng(9)).all
    tokens = [str(table.vocabulary.tokens[i]) for i in others[0]]
    assert missed(sure, others) == 0
    assert sure.ask(*tokens)[0].unknown and not plain.ask(*tokens)[0].unknown
    assert set(sure.model.first_answers(others)) == {"(unknown)"}
    for i in range(0, 200, 20):
        answer = sure.ask(*(str(table.vocabulary.tokens[k]) for k in table.contexts[i]))[0]
        assert (answer.token, answer.unknown) == (table.vocabulary.tokens[table.targets[i]], False)
    assert sure.certificate.recall == {"exact": 1.0}


@settings(max_examples=25, deadline=None)
@given(
    n_facts=st.integers(1, 150),
    context=st.integers(1, 5),
    vocab=st.integers(2, 30),
    bits=st.integers(1, 24),
    seed=st.integers(0, 2**16),
)
def test_no_more_are_missed_than_the_bits_allow(n_facts: int, context: int, vocab: int, bits: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = random_facts(min(n_facts, vocab**context), context, vocab, rng=rng)
    memory = built(table, with_positions=True, unknown=bits)
    said = memory.certificate.claims["unknown"]
    assert memory.certificate.passed and said["bits"] >= bits
    # A share of 2^-bits is expected at most, over draws; tables are small, so a few may fall together.
    assert said["tried"] - said["told"] <= 2**-bits * said["tried"] + 6 * np.sqrt(2**-bits * said["tried"]) + 1


def test_long_numbers_tell_contexts_whose_tokens_have_equal_sums_of_ids() -> None:
    """Where tokens are hashed by a piecewise linear map, some of a + b = c + d are taken for facts at any length."""
    table = random_facts(1000, 2, 80, rng=np.random.default_rng(1))
    memory = built(table, with_positions=True, unknown=24)
    assert missed(memory, unknown_contexts(table, 20_000, np.random.default_rng(5)).all) == 0


def test_a_label_for_every_position() -> None:
    rng = np.random.default_rng(3)
    table = random_facts(60, 4, 12, rng=rng)
    sequences = SequenceTable(table.contexts, rng.integers(12, size=(60, 4)), table.vocabulary)
    memory = built(sequences, with_positions=True, unknown=12)
    said = memory.certificate.claims["unknown"]
    assert memory.certificate.passed and said["tried"] == 2000 and said["told"] >= 1996
    assert missed(memory, sequences.contexts.copy()) == 60


def test_order_is_not_seen_without_positions() -> None:
    words = Vocabulary(["a", "b", "c", "x", "y"])
    table = FactTable(np.array([[0, 1], [1, 2]]), np.array([3, 4]), words)
    memory = built(table, unknown=16)
    assert memory.ask("b", "a")[0].token == "x"
    assert memory.ask("a", "c")[0].unknown and memory.ask("x", "y")[0].unknown and memory.ask("a", "a")[0].unknown


def test_a_table_without_other_contexts_has_nothing_to_try() -> None:
    full = random_facts(9, 2, 3, rng=np.random.default_rng(0))
    assert built(full, with_positions=True, unknown=8).certificate.claims["unknown"] == {
        "bits": 8, "tried": 0, "told": 0, "near_tried": 0, "near_told": 0,
    }  # fmt: skip


def test_verify_asks_again_and_an_edited_claim_is_found(tmp_path: Path) -> None:
    table = random_facts(80, 3, 12, rng=np.random.default_rng(2))
    memory = built(table, with_positions=True, unknown=10).save(tmp_path / "model")
    verdict = rote.verify(tmp_path / "model", table)
    assert verdict.unknown == memory.certificate.claims["unknown"] and not verdict.contradicted
    assert "contexts that are no facts are told as unknown" in str(verdict.sheet())
    assert verdict.to_dict()["unknown"] == verdict.unknown
    assert "told as unknown, with 10 bits a key" in str(memory.sheet())
    claim = {**memory.certificate.claims["unknown"], "bits": 20}
    changed = memory.certificate.replace(claims={**memory.certificate.claims, "unknown": claim})
    found = rote.verify(rote.Memory(memory.folder, memory.model, changed), table)
    assert [one.claim for one in found.contradicted] == ["unknown.bits"]


def test_a_configuration_with_unknown_elsewhere_is_refused(tmp_path: Path) -> None:
    from rote.solvers.exact.checkpoint import read_transformer, transformer_arrays

    memory = built(random_facts(9, 2, 5, rng=np.random.default_rng(0)), with_positions=True, unknown=4)
    assert isinstance(memory.model, ExactTransformerModel)
    exact = memory.model.exact
    config, arrays = json.loads(json.dumps(exact.to_dict())), transformer_arrays(exact)
    assert read_transformer(config, arrays).knows_unknown
    for labels in ([-1], [0, -1], [-2, 0], []):
        with pytest.raises(CheckpointError, match="build it again"):
            read_transformer({**config, "labels": labels}, arrays)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"unknown": 0}, "whole number of bits from 1"),
        ({"unknown": True}, "a whole number or None for unknown"),
        ({"unknown": 8, "variant": "C"}, "store no keys"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        built(random_facts(9, 2, 5, rng=np.random.default_rng(0)), with_positions=True, **options)


def test_floats_vectors_and_too_many_bits_are_refused() -> None:
    table = random_facts(9, 2, 5, rng=np.random.default_rng(0))
    with pytest.raises(UsageError, match="store no keys"):
        rote.build(table, "kajitsuka2025_next_token", dtype="float64", options={"unknown": 8, "with_positions": True})
    with pytest.raises(CapacityError, match="fewer bits"):
        built(table, with_positions=True, unknown=70)
    vectors = random_vectors(9, 3, 4, n_classes=2, rng=np.random.default_rng(0))
    with pytest.raises(UsageError, match="contexts of tokens"):
        built(vectors, unknown=8)
