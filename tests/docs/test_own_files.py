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
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the pieces of code below print, in one process with a copy of the package that has docs/examples/own."""
    spec = importlib.util.spec_from_file_location("rote_docs_sessions", DOCS / "make_sessions.py")
    assert spec is not None and spec.loader is not None
    sessions = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = sessions
    spec.loader.exec_module(sessions)
    place = tmp_path_factory.mktemp("package")
    package: Path = sessions.with_own_files(place)
    code = "\n".join(
        f"print('<part>{name}')\nexec({part!r}, {{'__name__': '__main__', 'MODEL': {str(place / 'birds')!r}}})"
        for name, part in PARTS.items()
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=DOCS / "examples",
        env={**os.environ, "PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(part.split("\n", 1) for part in done.stdout.split("<part>")[1:])


def _of_the_page() -> str:
    """The code block of the page, as it stands there."""
    page = (DOCS / "adding-a-construction.md").read_text(encoding="utf-8")
    (block,) = [part.split("```")[0] for part in page.split("```python\n")[1:] if "check_theorem(" in part]
    return block


PARTS = {
    "contracts": _of_the_page(),
    "commands": """
from rote.cli.main import run
birds = ["birds.csv", "--tokens", "words"]
for words in (
    ["plan", *birds],
    ["build", "--help"],
    ["build", *birds, "--with", "last_token_table", "-o", MODEL],
    ["verify", MODEL],
    ["theorems"],
):
    print("<command>")
    assert run(words) == 0, words
print("<command>")
from rote.web.options import constructions_answer
for one in constructions_answer()["constructions"]:
    print(one["construction"], [option["name"] for option in one["options"]])
""",
    "tables": f"""
import sys
sys.path.insert(0, {str(DOCS)!r})
import make_tables as t
print(t.construction_table(), t.kinds(), t.theorems_page())
""",
    "judges": """
import rote
from rote.referee import judging
table = rote.read("birds.csv", tokens="words")
print(rote.build(table, "lookup").certificate.judged_by)
judging._judges._discovered().pop("lookup")
print(rote.build(table, "lookup").certificate.judged_by)
""",
}


def test_every_file_keeps_its_contract(said: dict[str, str]) -> None:
    assert set(said) == set(PARTS)


def test_the_command_line_and_the_explorer_find_them(said: dict[str, str]) -> None:
    plan, help_page, _, verdict, theorems, explorer = said["commands"].split("<command>")[1:]
    assert "last_token_table" in plan and "last_token_table" in theorems
    assert "--scale" in help_page and "Options of last_token_table" in help_page
    assert "4 of 4" in verdict
    assert "last_token_table ['scale']" in explorer and "lookup []" in explorer


def test_a_model_without_a_judge_is_run_by_itself_and_the_certificate_says_so(said: dict[str, str]) -> None:
    assert said["judges"].splitlines() == ["referee", "the model's own forward pass"]


def test_the_tables_of_the_pages_list_them(said: dict[str, str]) -> None:
    for name in ("`last_token_table`", "`choices`", "`lookup`", "## last_token_table", "`LastTokenTable`"):
        assert name in said["tables"]
