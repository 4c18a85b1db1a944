"""Model cards: every directory has one that says what the certificate says, and none is a part of the model."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

import rote
from attacks import tiny_models
from rote.cli.main import run
from rote.data import random_distributions, random_facts, random_vectors
from rote.errors import OutputError
from rote.models import folders


def head(folder: Path) -> dict[str, object]:
    """The YAML of a card."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert text.startswith("---\n")
    found = yaml.safe_load(text[4 : text.index("\n---\n", 4)])
    assert isinstance(found, dict)
    return found


def code(folder: Path) -> str:
    """The Python of a card."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    return text.split("```python\n")[1].split("```")[0]


def ran(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What the Python of a card prints, which is the answer that it names, if it names one."""
    monkeypatch.chdir(folder.parent)
    capsys.readouterr()
    exec(code(folder), {})
    said, last = capsys.readouterr().out, code(folder).strip().splitlines()[-1]
    assert not last.startswith("# ") or said.strip() == last[2:].strip()
    return said


@pytest.mark.parametrize("arch", [None, "llama"])
def test_the_code_of_a_card_says_the_answer_of_the_card(
    arch: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.csv").write_text('river,what,y\nDanube,mouth,Black Sea\nNile,in,Africa\nDon,in,"a|<b>`c"\n')
    rote.build(rote.read(tmp_path / "rows.csv"), arch=arch, rng=0).save(tmp_path / "model")
    assert head(tmp_path / "model")["library_name"] == ("rote" if arch is None else "transformers")
    lines = code(tmp_path / "model")
    assert ran(tmp_path / "model", capsys, monkeypatch).strip() == "Black Sea" and "# Black Sea" in lines
    text = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert (
        "3 facts of rows" in text and "100 %" in text and rote.load(tmp_path / "model").certificate.facts_sha256 in text
    )


def test_a_card_is_no_part_of_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, model = random_facts(20, 2, 9, rng=_rng()), tmp_path / "model"
    memory = rote.build(table, rng=0).save(model)
    assert "README.md" not in memory.certificate.files_sha256
    first = (model / "README.md").read_text()
    (model / "README.md").write_text(first + "edited")
    assert rote.verify(model, table).passed
    assert run(["card", str(model)]) == 0
    # In memory there was no file, so there is no question in the card that is written from the directory alone.
    assert "edited" not in (model / "README.md").read_text() and "print(memory)" in code(model)
    assert "20 facts" in ran(model, capsys, monkeypatch)
    (model / "README.md").write_text("notes")
    assert run(["card", str(model)]) == 2
    assert "not a card" in capsys.readouterr().err and (model / "README.md").read_text() == "notes"
    assert run(["card", str(model), "--force"]) == 0
    assert head(model)["tags"]
    (model / "README.md").unlink()
    assert rote.verify(model, table).passed
    assert run(["card", str(tmp_path / "nothing")]) == 2


def test_names_of_others_stay_text(tmp_path: Path) -> None:
    table = random_facts(6, 1, 9, rng=_rng())
    name = '<script>alert("x")</script> | `b`\n---\nlicense: mine'
    memory = rote.build(table, rng=0)
    certificate = memory.certificate.replace(facts_name=name)
    folder = rote.Memory(memory.folder, memory.model, certificate, memory.staging).save(tmp_path / "m").folder
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "<script>" not in text and "license" not in head(folder) and "\nlicense" not in text


def test_an_example_is_one_that_comes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where facts are lost, where a fact was changed, and where several answers are true."""
    table = random_facts(60, 2, 30, rng=_rng())
    lossy = rote.build(table, "argmax_fit", n_heads=4, d_model=4, d_head=2, partial=True, rng=0)
    assert 0 < lossy.certificate.recall["float32"] < 1
    lossy.save(tmp_path / "lossy")
    exact = rote.build(table, "hashed_table", rng=0).save(tmp_path / "exact")
    first = [table.vocabulary.tokens[i] for i in table.contexts[0].tolist()]
    other = next(i for i in table.targets.tolist() if i != table.targets[0])
    exact.edit(set={tuple(first): table.vocabulary.tokens[other]}, table=table).save(tmp_path / "edited")
    exact.edit(forget=[tuple(first)], table=table).save(tmp_path / "forgot")
    rote.build(random_distributions(40, 2, 9, rng=_rng()), d_model=4, rng=0).save(tmp_path / "distributions")
    for name in ("lossy", "exact", "edited", "forgot", "distributions"):
        assert ran(tmp_path / name, capsys, monkeypatch), name
    assert ran(tmp_path / "edited", capsys, monkeypatch).strip() == table.vocabulary.tokens[other]


def test_vectors_are_given_their_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = random_vectors(6, 4, 6, rng=_rng())
    choices = table.write(tmp_path / "v.safetensors")
    again = rote.read(tmp_path / "v.safetensors", choices=choices)
    folder = rote.build(again, "mahdavi2024_thm1", rng=0).save(tmp_path / "m").folder
    # The same numbers twice: what the model says, and what it was told.
    said = [float(one) for one in re.findall(r"-?\d\.\d+", ran(folder, capsys, monkeypatch))]
    assert len(said) == 6 and said[:3] == pytest.approx(said[3:], abs=1e-3)
    # Without the file there is nothing to give.
    folder = rote.build(table, "mahdavi2024_thm1", rng=0).save(tmp_path / "n").folder
    assert "6 facts" in ran(folder, capsys, monkeypatch)


def test_every_life_of_a_graft_has_a_card_that_runs(
    tiny_graft: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, rows = tmp_path / "made", (tiny_graft / "facts.csv").read_text(encoding="utf-8").splitlines()
    shutil.copytree(tiny_graft / "made", made)
    key = rows[1].split(",")[0]
    (tmp_path / "new.csv").write_text(f"code,city\n{key},north Quito\n", encoding="utf-8")
    assert run(["graft", "update", str(made), str(tmp_path / "new.csv"), "-o", str(tmp_path / "updated")]) == 0
    assert run(["graft", "remove", str(made), "--key", key, "-o", str(tmp_path / "removed")]) == 0
    assert run(["graft", "pack", str(made), "-o", str(tmp_path / "m.graft")]) == 0
    assert (
        run(["graft", "apply", str(tiny_graft / "model"), str(tmp_path / "m.graft"), "-o", str(tmp_path / "put")]) == 0
    )
    for name in ("updated", "removed", "put"):
        assert f"# {name}\n" in (tmp_path / name / "README.md").read_text(encoding="utf-8")
        assert f"from_pretrained('{name}')" in code(tmp_path / name) and head(tmp_path / name)["base_model"] == "model"
        assert ran(tmp_path / name, capsys, monkeypatch), name
    assert rote.verify(tmp_path / "put").passed


def test_a_graft_names_its_base_and_gives_its_card_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_models.write_tiny(tmp_path / "base", tied=True)
    own = "---\nlanguage: en\nlicense: apache-2.0\n---\n# The base\n"
    (model / "README.md").write_text(own)
    facts = tiny_models.write_table(tmp_path / "facts.csv", 12)
    options = rote.Graft(keep=tiny_models.write_text(tmp_path / "keep.txt", 6000), examined=2)
    made = tmp_path / "made"
    rote.graft(model, facts, template="The code {code} is in", answer=" {city}", options=options, output=made)
    said = head(made)
    assert (said["base_model"], said["license"], said["library_name"]) == ("base", "apache-2.0", "transformers")
    assert "The code" in code(made) and ran(made, capsys, monkeypatch).startswith(" ")
    text = (made / "README.md").read_text(encoding="utf-8")
    assert "gets the original's answer" in text and "means nothing" not in text
    assert run(["card", str(made)]) == 0 and rote.verify(made).passed
    rote.ungraft(made, tmp_path / "back")
    assert (tmp_path / "back" / "README.md").read_text() == own
    assert folders.hashes(tmp_path / "back") == folders.hashes(model)


def test_a_card_that_the_certificate_lists_is_left_alone(tmp_path: Path) -> None:
    """Directories of before, with the original's README.md among the files of a graft."""
    folder = rote.build(random_facts(6, 1, 9, rng=_rng()), rng=0).save(tmp_path / "m").folder
    memory = rote.load(folder)
    files = {**memory.certificate.files_sha256, "README.md": folders.file_sha256(folder / "README.md")}
    record = memory.certificate.replace(files_sha256=files).to_dict()
    (folder / "certificate.json").write_text(json.dumps(record))
    from rote.card import write_card

    with pytest.raises(OutputError, match="certificate lists"):
        write_card(rote.load(folder), force=True)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)
