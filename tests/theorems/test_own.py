"""Theorems of one's own: by path, by folder, and with mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rote
from rote.cli.main import run
from rote.errors import UsageError
from rote.registry import Registry
from rote.theorems import Theorem
from rote.theorems._own import OwnTheorems

ARCH = rote.Architecture(n_heads=8, d_model=64, d_head=64, context=32, vocab=1000)
SHAPE = ["--heads", "8", "--d-model", "64", "--context", "32", "--vocab", "1000"]
GOOD = '''"""A theorem of a test."""
from rote.theorems import Citation, Theorem, condition


class Mine(Theorem):
    title, kind, statement = "Mine", "lower", "Every shape holds seven facts."
    citation = Citation("Nobody", "Seven", 2026, "Theorem 7")

    def bound(self, setting):
        return self.make(setting, facts=7, conditions=(condition("seven", None, "up to you"),), formula="7")


theorem = Mine()
'''
LATE = GOOD.replace("facts=7", "facts=7 // 0")


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def own(folder: Path) -> tuple[OwnTheorems, Registry[Theorem]]:
    registry: Registry[Theorem] = Registry("theorem", "rote.theorems", [], Theorem)
    return OwnTheorems(registry), registry


def test_a_file_is_asked_by_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "own_by_path", GOOD)
    assert [(one.theorem, one.facts) for one in rote.bounds(ARCH, [str(path)])] == [("own_by_path", 7)]
    assert run(["bound", *SHAPE, "--theorem", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["facts"] == 7
    assert run(["theorems", str(path)]) == 0
    assert "A theorem of a test." in capsys.readouterr().out


def test_a_mistake_in_a_bound_leaves_the_others_standing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "own_late", LATE)
    answer = rote.bounds(ARCH, [str(path), "counting"])
    assert [one.theorem for one in answer] == ["counting"]
    assert (
        str(answer.faults[0])
        == f"own_late is left out: {path} line 10: ZeroDivisionError: integer division or modulo by zero."
    )
    with pytest.raises(UsageError, match=r"own_late\.py line 10"):
        rote.bounds(ARCH, [str(path)])
    assert run(["bound", *SHAPE, "--theorem", str(path), "--theorem", "counting", "--json"]) == 0
    out, err = capsys.readouterr()
    assert [one["theorem"] for one in json.loads(out)] == ["counting"] and "line 10" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n\ny = undefined\n", "wrong.py line 3: NameError"),
        ("x = (\n", "wrong.py line 1: SyntaxError"),
        ("x = 1\n", "must define `theorem`"),
        ("raise SystemError\n", "wrong.py line 1"),
        ("import no_such_module\n", "wrong.py line 1: ModuleNotFoundError"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as refusal:
        own(tmp_path)[0].load(written(tmp_path, "wrong", text))
    assert said in str(refusal.value)


def test_a_file_that_cannot_be_loaded_leaves_the_others_standing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "unreadable", "x = (\n")
    monkeypatch.chdir(tmp_path)
    answer = rote.bounds(ARCH, ["./unreadable.py", "counting"])
    assert [one.theorem for one in answer] == ["counting"]
    assert [str(one) for one in answer.faults] == [
        "unreadable is left out: unreadable.py line 1: SyntaxError: '(' was never closed."
    ]
    with pytest.raises(UsageError, match=r"^unreadable\.py line 1: .*; so unreadable is no theorem"):
        rote.bounds(ARCH, [str(path)])


def test_a_file_that_is_not_there_or_takes_a_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        rote.bounds(ARCH, [str(tmp_path / "none.py")])
    with pytest.raises(UsageError, match="of that name already"):
        rote.bounds(ARCH, [str(written(tmp_path, "counting", GOOD))])


def test_folders_are_read_and_their_mistakes_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "fine", GOOD)
    written(tmp_path, "broken", "1 / 0\n")
    written(tmp_path, "_helper", "1 / 0\n")
    monkeypatch.setenv("ROTE_THEOREMS", f"{tmp_path}:{tmp_path / 'gone'}")
    loader, registry = own(tmp_path)
    loader.load_folders()
    assert list(registry.all()) == ["fine"]
    assert [str(one) for one in loader.faults] == [
        f"broken is left out: {tmp_path / 'broken.py'} line 1: ZeroDivisionError: division by zero.",
        f"{tmp_path / 'gone'} is left out: ROTE_THEOREMS: there is no such folder.",
    ]
