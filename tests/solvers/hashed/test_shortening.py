"""Rules by which facts share keys: what they leave, and the layers that follow them."""

from __future__ import annotations

import numpy as np
import pytest

import rote
from rote.data import FactTable, Vocabulary
from rote.errors import UsageError
from rote.solvers.hashed.hashing import drawn_hash
from rote.solvers.hashed.planning import layouts
from rote.solvers.hashed.shortening import opening_layers, shortenings

FORMATS = ("bfloat16", "float16", "float32")


def codes_with_exceptions(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes of four letters whose label goes by the first two, but for a few."""
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(0, 16, (2 * n, 4)), axis=0)
    keys = keys[rng.permutation(len(keys))[:n]]
    labels = rng.integers(0, 20, (16, 16))[keys[:, 0], keys[:, 1]]
    odd = rng.permutation(n)[: n // 150]
    labels[odd] = rng.integers(0, 20, len(odd))
    return keys, labels


def table(keys: np.ndarray, labels: np.ndarray) -> FactTable:
    return FactTable(keys, labels, Vocabulary([f"t{i}" for i in range(20)]), None, "codes")


@pytest.mark.parametrize("seed", range(3))
def test_keys_that_are_read_alike_have_one_label(seed: int) -> None:
    keys, labels = codes_with_exceptions(2000, seed)
    rules = shortenings(keys, labels, 16)
    assert rules
    for rule in rules:
        whole, which = np.unique(rule.keys, axis=0, return_inverse=True)
        assert len(whole) == rule.count < len(keys)
        for group in range(len(whole)):
            assert len(set(labels[which.reshape(-1) == group].tolist())) == 1
        # What is read is as it was.
        assert ((rule.keys == keys) | (rule.keys == 16)).all()


def test_the_tokens_that_tell_most_come_first() -> None:
    keys, labels = codes_with_exceptions(2000, 5)
    turned = keys[:, [2, 0, 3, 1]]
    for rule in shortenings(turned, labels, 16):
        assert set(rule.order[:2]) == {1, 3}


@pytest.mark.parametrize("seed", range(3))
def test_layers_blank_what_the_rule_blanks(seed: int) -> None:
    keys, labels = codes_with_exceptions(800, seed)
    for rule in shortenings(keys, labels, 16):
        layout = next(layouts(rule.count, 4, 16, 20, "float32", openers=rule.openers))
        hashing = drawn_hash(layout, np.arange(4), np.random.default_rng(seed))
        assert not hashing.codes[16].any()

        def inputs(contexts: np.ndarray) -> np.ndarray:
            bits = [hashing.codes[contexts[:, p]][:, hashing.copied[p]] for p in range(4)]  # noqa: B023
            return np.concatenate([*bits, np.ones((len(contexts), 1))], axis=1)

        stream = inputs(keys)
        for matrix in opening_layers(hashing, rule):
            stream = np.maximum(0.0, stream @ matrix.T)
        assert np.array_equal(stream, inputs(rule.keys))


def test_tables_without_rules_have_none() -> None:
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(0, 60, (3000, 4)), axis=0)
    assert not shortenings(keys, rng.integers(0, 60, len(keys)), 60)
    assert not shortenings(np.arange(9)[:, None], np.zeros(9, dtype=np.int64), 9)


@pytest.mark.parametrize("dtype", FORMATS)
def test_facts_with_a_rule_take_fewer_parameters(dtype: str) -> None:
    facts = table(*codes_with_exceptions(3000, 1))
    memory = rote.build(facts, rote.HashedTable(), dtype=dtype)
    assert memory.certificate.recall[dtype] == 1.0
    assert memory.certificate["report"]["rule"]["keys"] < 1000
    plain = rote.build(facts, rote.HashedTable(plain=True), dtype=dtype)
    assert plain.certificate.recall[dtype] == 1.0
    assert "rule" not in plain.certificate["report"]
    assert memory.certificate.params < plain.certificate.params


def test_a_token_that_never_matters_is_not_read() -> None:
    keys, labels = codes_with_exceptions(600, 2)
    labels = keys[:, 0] * 2 % 19
    memory = rote.build(table(keys, labels), rote.HashedTable(), dtype="bfloat16")
    assert memory.certificate.recall["bfloat16"] == 1.0
    assert memory.certificate["report"]["rule"]["keys"] < 100


def test_facts_that_share_keys_are_not_edited_one_by_one() -> None:
    facts = table(*codes_with_exceptions(3000, 3))
    memory = rote.build(facts, rote.HashedTable(), dtype="bfloat16")
    assert memory.certificate["report"]["rule"]
    with pytest.raises(UsageError, match="share keys by a rule"):
        rote.edit(memory, set={tuple(facts.context_tokens(0)): "t1"}, table=facts)
