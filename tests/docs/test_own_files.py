"""The worked examples of the pages on adding things: dropped into a copy of the package, everything finds them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the files of docs/examples/own."""
    spec = importlib.util.spec_from_file_location("rote_docs_sessions", DOCS / "make_sessions.py")
    assert spec is not None and spec.loader is not None
    sessions = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = sessions
    spec.loader.exec_module(sessions)
    place: Path = sessions.with_own_files(tmp_path_factory.mktemp("package"))
    return place


def _python(package: Path, *args: str, cwd: Path = DOCS / "examples") -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *args],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_file_keeps_its_contract(package: Path) -> None:
    """The code block of the page, as it stands there."""
    page = (DOCS / "adding-a-construction.md").read_text(encoding="utf-8")
    (block,) = [part.split("```")[0] for part in page.split("```python\n")[1:] if "check_theorem(" in part]
    _python(package, "-c", block)


def test_the_command_line_and_the_explorer_find_them(package: Path, tmp_path: Path) -> None:
    birds, model = ["birds.csv", "--tokens", "words"], str(tmp_path / "birds")
    commands = [
        ["plan", *birds],
        ["build", "--help"],
        ["build", *birds, "--with", "last_token_table", "-o", model],
        ["verify", model],
        ["theorems"],
    ]
    code = f"""
from rote.cli.main import run
for words in {commands!r}:
    print("<command>")
    assert run(words) == 0, words
print("<command>")
from rote.web.options import constructions_answer
for one in constructions_answer()["constructions"]:
    print(one["construction"], [option["name"] for option in one["options"]])
"""
    plan, help_page, _, verdict, theorems, explorer = _python(package, "-c", code).split("<command>")[1:]
    assert "last_token_table" in plan and "last_token_table" in theorems
    assert "--scale" in help_page and "Options of last_token_table" in help_page
    assert "4 of 4" in verdict
    assert "last_token_table ['scale']" in explorer and "lookup []" in explorer


def test_a_model_without_a_judge_is_run_by_itself_and_the_certificate_says_so(package: Path) -> None:
    code = """
import rote
from rote.referee import judging
table = rote.read("birds.csv", tokens="words")
print(rote.build(table, "lookup").certificate.judged_by)
judging._judges._discovered().pop("lookup")
print(rote.build(table, "lookup").certificate.judged_by)
"""
    assert _python(package, "-c", code).splitlines() == ["referee", "the model's own forward pass"]


def test_the_tables_of_the_pages_list_them(package: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(DOCS)!r}); import make_tables as t; print(t.construction_table(), t.kinds(), t.theorems_page())"  # noqa: E501
    tables = _python(package, "-c", code)
    for name in ("`last_token_table`", "`choices`", "`lookup`", "## last_token_table", "`LastTokenTable`"):
        assert name in tables
