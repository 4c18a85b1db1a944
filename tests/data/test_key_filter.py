"""The filter of keys: no key is ever missed, others pass at the rate that its size allows, and damage is told."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rote
from rote.certificate import HASH, sha256_of
from rote.data import DistributionTable, FactTable, Vocabulary, random_facts
from rote.data.key_filter import FILE, KeyFilter
from rote.errors import CheckpointError
from rote.models.folders import file_sha256


@pytest.mark.parametrize(
    "contexts",
    [
        np.random.default_rng(0).integers(0, 50, (20_000, 6)),
        np.arange(70_000)[:, None],
        np.stack([np.arange(5000) // 100, np.arange(5000) % 100], axis=1),
        np.array([[0, 0, 0]]),
    ],
    ids=["random", "consecutive", "grid", "one"],
)
def test_every_key_is_held_and_few_others_pass(contexts: np.ndarray) -> None:
    keys = KeyFilter.of(contexts)
    assert keys.has(contexts).all()
    others = contexts + 1_000_000
    others[:, 0] += np.arange(len(others))
    share = keys.has(np.concatenate([others + i for i in range(0, 40_000, 20_000)])).mean()
    assert share < 0.02
    assert 8 * len(keys.bits) <= max(64, 10 * len(contexts) + 8)


def test_order_and_padding_count() -> None:
    keys = KeyFilter.of(np.array([[0, 1, 2]]))
    assert keys.has(np.array([[0, 1, 2], [0, 2, 1], [1, 0, 2], [0, 0, 1], [2, 1, 0]])).tolist() == [True] + 4 * [False]


def test_a_model_marks_what_it_was_not_told(tmp_path: Path) -> None:
    table = random_facts(200, 3, 30, rng=np.random.default_rng(0))
    memory = rote.build(table, with_="argmax_fit").save(tmp_path / "model")
    found = memory.certificate["key_filter"]
    assert found["facts_held"] == 200 and found["bits_per_fact"] == 10.0
    assert found["others_tried"] > 10_000 and found["others_told"] / found["others_tried"] > 0.985
    loaded = rote.load(tmp_path / "model")
    assert all(one.known for one in loaded.ask(*table.context_tokens(0)))
    seen = {tuple(row) for row in table.contexts.tolist()}
    others = [row for row in np.random.default_rng(1).integers(0, 30, (200, 3)).tolist() if tuple(row) not in seen]
    answers = [loaded.ask(*(table.vocabulary.tokens[i] for i in row), top=1)[0].known for row in others]
    assert answers.count(False) > 0.95 * len(answers)
    verdict = rote.verify(loaded, table, all_formats=True)
    assert "key_filter.others_told" in verdict.checked and not verdict.contradicted


def test_models_with_fingerprints_need_none(tmp_path: Path) -> None:
    table = random_facts(200, 3, 30, rng=np.random.default_rng(0))
    memory = rote.build(table, with_=rote.HashedTable(unknown=12)).save(tmp_path / "model")
    assert not (tmp_path / "model" / FILE).exists() and "key_filter" not in memory.certificate
    assert memory.known(*table.context_tokens(5)) is True
    assert memory.ask(*table.context_tokens(5))[0].known is True


def test_tables_that_are_carried_are_asked_themselves(tmp_path: Path) -> None:
    rows = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.1, 0.1, 0.8]])
    table = DistributionTable(np.array([[0, 1], [1, 2], [2, 0]]), np.full(3, 1 / 3), rows, Vocabulary(["a", "b", "c"]))
    memory = rote.build(table, d_model=3).save(tmp_path / "model")
    assert not (tmp_path / "model" / FILE).exists()
    assert memory.known("a", "b") is True and memory.known("b", "a") is False


def _rewrite(folder: Path, content: bytes | None, *, drop_claim: bool = False) -> None:
    """Change the filter and make the certificate fit it, as somebody would who knows how."""
    path = folder / "certificate.json"
    record = json.loads(path.read_text())
    if content is None:
        (folder / FILE).unlink()
        del record["files_sha256"][FILE]
    else:
        (folder / FILE).write_bytes(content)
        record["files_sha256"][FILE] = file_sha256(folder / FILE)
    if drop_claim:
        del record["key_filter"]
    record[HASH] = sha256_of({name: value for name, value in record.items() if name != HASH})
    path.write_text(json.dumps(record))


@pytest.fixture
def model(tmp_path: Path) -> tuple[Path, FactTable]:
    table = random_facts(50, 2, 12, rng=np.random.default_rng(0))
    rote.build(table, with_="argmax_fit").save(tmp_path / "model")
    return tmp_path / "model", table


def test_another_filter_is_contradicted(model: tuple[Path, FactTable]) -> None:
    folder, table = model
    content = (folder / FILE).read_bytes()
    _rewrite(folder, content[:16] + bytes(len(content) - 16))
    verdict = rote.verify(rote.load(folder), table)
    assert "key_filter.facts_held" in {one.claim for one in verdict.contradicted}


def test_a_filter_that_was_taken_away_is_missed(model: tuple[Path, FactTable]) -> None:
    folder, table = model
    _rewrite(folder, None)
    verdict = rote.verify(rote.load(folder), table)
    assert {one.claim for one in verdict.contradicted} >= {"key_filter.facts_held"}


def test_directories_without_a_filter_stay_as_they_were(model: tuple[Path, FactTable]) -> None:
    folder, table = model
    _rewrite(folder, None, drop_claim=True)
    memory = rote.load(folder)
    assert memory.known(*table.context_tokens(0)) is None
    assert memory.ask(*table.context_tokens(0))[0].known is None
    assert not rote.verify(memory, table).contradicted


@pytest.mark.parametrize("change", [lambda b: b[:10], lambda b: b[:16], lambda b: b[:-1], lambda b: b"x" + b[1:]])
def test_damage_is_told_in_a_sentence(model: tuple[Path, FactTable], change: object) -> None:
    folder, table = model
    _rewrite(folder, change((folder / FILE).read_bytes()))  # type: ignore[operator]
    with pytest.raises(CheckpointError, match=r"filter of keys"):
        rote.load(folder).ask(*table.context_tokens(0))


def test_a_changed_filter_is_refused_by_its_hash(model: tuple[Path, FactTable]) -> None:
    folder, _ = model
    (folder / FILE).write_bytes((folder / FILE).read_bytes() + b"0")
    with pytest.raises(CheckpointError, match=FILE):
        rote.load(folder)


def test_a_single_fact_has_a_filter() -> None:
    table = FactTable(np.array([[0, 1]]), np.array([1]), Vocabulary(["a", "b"]))
    keys = table.keys
    assert keys is not None and table.key_findings(keys)["facts_held"] == 1
