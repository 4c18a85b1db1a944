"""Grafted checkpoints as models: written, read, asked, moved, and taken apart again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import rote
from attacks import tiny_models
from rote.errors import CheckpointError, UsageError
from rote.models.kinds.grafted import GraftedModel, ungraft
from rote.testing import check_model

TEMPLATE, ANSWER = "The code {code} is in", " {city}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, a table, and the graft of one on the other; read only."""
    place = tmp_path_factory.mktemp("grafted")
    model = tiny_models.write_tiny(place / "model", tied=True)
    facts = tiny_models.write_table(place / "facts.csv", 16)
    options = rote.Graft(keep=tiny_models.write_text(place / "keep.txt", 6000), keep_tokens=1500)
    rote.graft(model, facts, template=TEMPLATE, answer=ANSWER, options=options, output=place / "made")
    return place


def test_the_contract(place: Path) -> None:
    check_model(rote.load(place / "made").model)


def test_it_answers_in_words(place: Path) -> None:
    memory = rote.load(place / "made")
    assert isinstance(memory.model, GraftedModel)
    for fact in memory.table().facts:  # type: ignore[attr-defined]
        (answer,) = memory.ask(fact.text)
        assert answer.token == fact.answer
        logits = memory.model.logits(torch.tensor([memory.encode([fact.text])]))[0].double()
        assert answer.probability == pytest.approx(float(torch.softmax(logits, 0).max()))
    assert memory.ask("The", "code", "AS") == memory.ask("The code AS")
    with pytest.raises(UsageError, match="empty"):
        memory.ask("")


def test_its_own_outputs_are_the_referees(place: Path) -> None:
    memory = rote.load(place / "made")
    result = memory.table().score(memory.model.outputs("float32"), "float32")
    assert result.passed and rote.verify(memory).passed
    with pytest.raises(UsageError, match="not run as float64"):
        rote.verify(memory, dtype="float64")
    with pytest.raises(UsageError, match="reads text"):
        rote.verify(memory, rote.read("elements"))


def test_shape_and_counts(place: Path) -> None:
    memory = rote.load(place / "made")
    model, arch = memory.model, memory.model.arch
    added = memory.certificate["graft"]["layers"]["added"]
    assert (arch.n_layers, arch.d_model, arch.d_mlp, arch.n_heads, arch.context) == (2 + added, 192, 256, 4, 128)
    assert model.counts["full"] == model.counts["original"] + model.counts["added"] == model.stored
    assert model.stored == sum(p.numel() for p in memory.module.parameters())
    assert memory.certificate.params == model.stored


def test_written_again_it_is_the_same(place: Path, tmp_path: Path) -> None:
    memory = rote.load(place / "made")
    memory.model.write(tmp_path / "copy")
    assert not (tmp_path / "copy" / "certificate.json").exists()
    assert memory.model.at(tmp_path / "copy").answers(["The code AS"], 1) == memory.ask("The code AS")


def test_the_original_comes_back_or_nothing_does(place: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    shutil.copytree(place / "made", made)
    names = ungraft(made, tmp_path / "back")
    assert names == sorted(path.name for path in (place / "model").iterdir())
    with pytest.raises(CheckpointError, match=r"no certificate\.json"):
        ungraft(tmp_path / "back")
    (made / "original" / "config.json").unlink()
    with pytest.raises(CheckpointError, match="incomplete"):
        ungraft(made, tmp_path / "again")
    (made / "certificate.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match="no grafted model"):
        ungraft(made, tmp_path / "again")
    assert not (tmp_path / "again").exists()
