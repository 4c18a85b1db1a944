"""The zoo: every construction, each exhibit whole and verified from its files alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rote
from rote import constructions
from rote.cli.main import run
from rote.errors import UnknownName
from rote.exhibits import EXHIBITS, zoo

QUICK = (
    "random-100",
    "random-100-vectors",
    "elements",
    "sequences-300",
    "bigrams-30",
    "countries-bits",
    "elements-llama",
)


def test_every_construction_that_needs_no_pretrained_model_is_shown() -> None:
    assert {one.construction for one in EXHIBITS} == set(constructions.registry()) - {"graft"}
    assert len({one.name for one in EXHIBITS}) == len(EXHIBITS) >= 12


def test_exhibits_are_built_with_cards_and_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["zoo", str(tmp_path / "zoo"), "--json"]
    for name in QUICK:
        command += ["--only", name]
    assert run(command) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == [
        one.name for one in EXHIBITS if one.name in QUICK
    ]
    index = (tmp_path / "zoo" / "README.md").read_text(encoding="utf-8")
    for name in QUICK:
        folder = tmp_path / "zoo" / name
        assert f"]({name}/README.md)" in index and (folder / "README.md").is_file()
        assert rote.verify(folder).passed
        # The code of the card, as it stands there, says what the card says.
        lines = (folder / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
        monkeypatch.chdir(folder.parent)
        exec(lines, {})
        said, last = capsys.readouterr().out.strip(), lines.strip().splitlines()[-1]
        assert said and (not last.startswith("# ") or last == f"# {said}"), name
    # What is there stays as it is.
    before = (tmp_path / "zoo" / "elements" / "certificate.json").stat().st_mtime_ns
    assert zoo(tmp_path / "zoo", only=["elements"]) == ["elements"]
    assert (tmp_path / "zoo" / "elements" / "certificate.json").stat().st_mtime_ns == before


def test_names_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnknownName, match="did you mean 'elements'"):
        zoo(tmp_path, only=["element"])
    assert run(["zoo"]) == 0
    assert "random-100k-hashed" in capsys.readouterr().out
