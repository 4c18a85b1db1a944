"""Grafted checkpoints as models: written, read, asked, moved, and taken apart again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import rote
from rote.errors import CheckpointError, UsageError
from rote.models.folders import hashes
from rote.models.kinds.grafted import GraftedModel
from rote.testing import check_model


def test_the_contract(tiny_graft: Path) -> None:
    check_model(rote.load(tiny_graft / "made").model)


def test_it_answers_in_words(tiny_graft: Path) -> None:
    memory = rote.load(tiny_graft / "made")
    assert isinstance(memory.model, GraftedModel)
    for fact in memory.table().facts:  # type: ignore[attr-defined]
        (answer,) = memory.ask(fact.text)
        assert answer.token == fact.answer
        logits = memory.model.logits(torch.tensor([memory.encode([fact.text])]))[0].double()
        assert answer.probability == pytest.approx(float(torch.softmax(logits, 0).max()))
    assert memory.ask("The", "code", "AS") == memory.ask("The code AS")
    with pytest.raises(UsageError, match="empty"):
        memory.ask("")


def test_its_own_outputs_are_the_referees(tiny_graft: Path) -> None:
    memory = rote.load(tiny_graft / "made")
    result = memory.table().score(memory.model.outputs("float32"), "float32")
    assert result.passed and rote.verify(memory).passed
    with pytest.raises(UsageError, match="not run as float64"):
        rote.verify(memory, dtype="float64")
    with pytest.raises(UsageError, match="reads text"):
        rote.verify(memory, rote.read("elements"))


def test_shape_and_counts(tiny_graft: Path) -> None:
    memory = rote.load(tiny_graft / "made")
    model, arch = memory.model, memory.model.arch
    added = memory.certificate["graft"]["layers"]["added"]
    channels = memory.certificate["graft"]["channels"]
    assert (arch.n_layers, arch.d_model, arch.n_heads, arch.context) == (2 + added, 192 + channels, 4, 128)
    assert model.counts["full"] == model.counts["original"] + model.counts["added"] == model.stored
    assert model.stored == sum(p.numel() for p in memory.module.parameters())
    assert memory.certificate.params == model.stored


def test_written_again_it_is_the_same(tiny_graft: Path, tmp_path: Path) -> None:
    memory = rote.load(tiny_graft / "made")
    memory.model.write(tmp_path / "copy")
    assert not (tmp_path / "copy" / "certificate.json").exists()
    assert memory.model.at(tmp_path / "copy").answers(["The code AS"], 1) == memory.ask("The code AS")


def test_the_original_comes_back_or_nothing_does(tiny_graft: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    shutil.copytree(tiny_graft / "made", made)
    names = rote.ungraft(made, tmp_path / "back")
    assert names == sorted(path.name for path in (tiny_graft / "model").iterdir())
    with pytest.raises(CheckpointError, match=r"no certificate\.json"):
        rote.ungraft(tmp_path / "back")
    (made / "original" / "norms.safetensors").unlink()
    with pytest.raises(CheckpointError, match="incomplete"):
        rote.ungraft(made, tmp_path / "again")
    (made / "certificate.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match="no grafted model"):
        rote.ungraft(made, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("original/model-00001-of-00014.safetensors.header", b"xx", "were damaged or edited"),
        ("original/model-00001-of-00014.safetensors.header", b"\5" + bytes(7) + b'{"a":', "were damaged or edited"),
        ("original/norms.safetensors", b"nothing", "were damaged or edited"),
        ("model.safetensors.index.json", b"{}", "were damaged or edited"),
        ("model.safetensors.index.json", b'{"weight_map": {}}', "were damaged or edited"),
        ("model-00001-of-00015.safetensors", b"nothing" * 9, "were damaged or edited"),
        ("model-00001-of-00015.safetensors", None, "has no model-00001-of-00015.safetensors"),
    ],
)
def test_what_cannot_be_restored(
    tiny_graft: Path, tmp_path: Path, name: str, content: bytes | None, sentence: str
) -> None:
    """In place and elsewhere: a sentence, and everything as it was."""
    made = shutil.copytree(tiny_graft / "made", tmp_path / "made")
    if content is None:
        (made / name).unlink()
    else:
        (made / name).write_bytes(content)
    before = hashes(made)
    for target in (None, tmp_path / "back"):
        with pytest.raises(CheckpointError, match=sentence):
            rote.ungraft(made, target)
    assert hashes(made) == before and [path.name for path in tmp_path.iterdir()] == ["made"]
