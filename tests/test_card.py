"""Model cards: every directory has one that says what the certificate says, and none is a part of the model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import rote
from attacks import tiny_models
from rote.cli.main import run
from rote.data import random_facts, random_vectors
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


@pytest.mark.parametrize("arch", [None, "llama"])
def test_the_code_of_a_card_says_the_answer_of_the_card(arch: str | None, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('river,what,y\nDanube,mouth,Black Sea\nNile,in,Africa\nDon,in,"a|<b>`c"\n')
    rote.build(rote.read(tmp_path / "rows.csv"), arch=arch, rng=0).save(tmp_path / "model")
    assert head(tmp_path / "model")["library_name"] == ("rote" if arch is None else "transformers")
    lines = code(tmp_path / "model")
    done = subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "Black Sea" and "# Black Sea" in lines
    text = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert (
        "3 facts of rows" in text and "100 %" in text and rote.load(tmp_path / "model").certificate.facts_sha256 in text
    )


def test_a_card_is_no_part_of_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, model = random_facts(20, 2, 9, rng=_rng()), tmp_path / "model"
    memory = rote.build(table, rng=0).save(model)
    assert "README.md" not in memory.certificate.files_sha256
    first = (model / "README.md").read_text()
    (model / "README.md").write_text(first + "edited")
    assert rote.verify(model, table).passed
    assert run(["card", str(model)]) == 0
    # In memory there was no file, so there is no question in the card that is written from the directory alone.
    assert "edited" not in (model / "README.md").read_text() and "rote.verify(memory)" in code(model)
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


def test_vectors_are_verified_not_asked(tmp_path: Path) -> None:
    table = random_vectors(6, 4, 6, rng=_rng())
    folder = rote.build(table, "mahdavi2024_thm1", rng=0).save(tmp_path / "m").folder
    assert "rote.verify(memory)" in code(folder)


def test_a_graft_names_its_base_and_gives_its_card_back(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "base", tied=True)
    own = "---\nlanguage: en\nlicense: apache-2.0\n---\n# The base\n"
    (model / "README.md").write_text(own)
    facts = tiny_models.write_table(tmp_path / "facts.csv", 12)
    options = rote.Graft(keep=tiny_models.write_text(tmp_path / "keep.txt", 6000), examined=2)
    made = tmp_path / "made"
    rote.graft(model, facts, template="The code {code} is in", answer=" {city}", options=options, output=made)
    said = head(made)
    assert (said["base_model"], said["license"], said["library_name"]) == ("base", "apache-2.0", "transformers")
    assert "The code" in code(made)
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
