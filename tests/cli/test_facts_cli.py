from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from rote.cli.facts import app
from rote.data import VectorTable, bigram_facts, load_facts, random_sequences, read_facts
from rote.errors import ConflictError, OutputError, RoteError, UnknownName, UsageError

runner = CliRunner()


def run(*args: object) -> str:
    result = runner.invoke(app, [str(arg) for arg in args])
    if result.exception is not None:
        raise result.exception
    assert result.exit_code == 0
    return result.stdout


def run_json(*args: object) -> Any:
    return json.loads(run(*args, "--json"))


def test_list() -> None:
    text = run("list")
    assert "elements" in text
    assert "28,298" in text
    found = run_json("list")
    assert {"elements", "countries", "airports", "languages", "cities"} <= {entry["name"] for entry in found}
    assert set(found[0]) >= {"name", "rows", "description", "source", "licence", "installed"}


def test_show() -> None:
    text = run("show", "elements", "--rows", 2)
    assert "Hydrogen" in text
    assert "Helium" not in text
    assert "470 more" in text
    found = run_json("show", "elements", "--rows", 1)
    assert found["facts"] == [{"context": ["H", "name"], "target": "Hydrogen"}]
    assert found["n_facts"] == 472
    assert found["sha256"] == load_facts("elements").sha256
    assert run_json("show", "elements", "--rows", 0)["facts"] == []


def test_show_a_file_with_options(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("a,w,b,c\nx y,1,p,1\nx y,1,q,2\nx y,1,q,2\n")
    with pytest.raises(ConflictError):
        run("show", path, "--context", "a", "--target", "b")
    found = run_json(
        "show", path, "--context", "a", "--target", "b", "--on-conflict", "last", "--tokens", "words", "--weight", "w"
    )
    assert found["facts"] == [{"context": ["x", "y"], "target": "q", "weight": 1.0}]
    assert (found["read"]["n_conflicts_resolved"], found["read"]["n_duplicates"]) == (1, 1)
    text = run("show", path, "--context", "a", "--target", "b", "--on-conflict", "last")
    assert "1 exact duplicates" in text
    assert "1 contradictory" in text


def test_user_data_cannot_style_or_break_the_table(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("[bold]h,t\n[red]x[/red],[/]\n\x1b[31mz,[link=http://x]y\n")
    text = run("show", path)
    for token in ("[bold]h", "[red]x[/red]", "[/]", "\\x1b[31mz", "[link=http://x]y"):
        assert token in text
    assert "\x1b" not in text


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_export(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out.{ending}"
    assert "778" in run("export", "countries", "-o", path)
    table, report = read_facts(path)
    assert table == load_facts("countries")
    assert (*report.context_columns, report.target_column) == ("country", "property", "value")
    before = path.read_bytes()
    with pytest.raises(OutputError, match="exists already; pass --force"):
        run("export", "elements", "-o", path)
    assert path.read_bytes() == before
    assert run_json("export", "elements", "-o", path, "--force")["n_facts"] == 472
    assert read_facts(path)[0] == load_facts("elements")


def test_export_keeps_cells_whole_and_converts_files(tmp_path: Path) -> None:
    pytest.importorskip("pycountry")
    run("export", "languages", "-o", tmp_path / "l.csv")
    assert read_facts(tmp_path / "l.csv", tokens="chars")[0] == load_facts("languages")
    run("export", tmp_path / "l.csv", "-o", tmp_path / "l.parquet")
    assert read_facts(tmp_path / "l.parquet")[0] == load_facts("languages", tokens="cells")


def test_generate(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    found = run_json("generate", "random", "--facts", 30, "--context", 3, "--vocab", 4, "--seed", 5, "-o", path)
    assert (found["n_facts"], found["output"]) == (30, str(path))
    first = path.read_bytes()
    run("generate", "random", "--facts", 30, "--context", 3, "--vocab", 4, "--seed", 5, "-o", path, "--force")
    assert path.read_bytes() == first
    run("generate", "random", "--facts", 30, "--context", 3, "--vocab", 4, "--seed", 6, "-o", path, "--force")
    assert path.read_bytes() != first
    run("generate", "bigrams", "--vocab", 7, "-o", path, "--force")
    assert read_facts(path)[0] == bigram_facts(7, rng=np.random.default_rng(0))
    run("generate", "sequences", "--facts", 30, "--context", 3, "--vocab", 5, "--classes", 2, "-o", path, "--force")
    assert read_facts(path)[0] == random_sequences(30, 3, 5, 2, rng=np.random.default_rng(0))


def test_generate_vectors(tmp_path: Path) -> None:
    path = tmp_path / "v.safetensors"
    run("generate", "vectors", "--facts", 9, "--context", 4, "--d-model", 3, "--sharing", "shared", "-o", path)
    table = VectorTable.load(path)
    assert table.shared
    assert run_json("show", path)["sha256"] == table.sha256
    assert "n_examples" in run("show", path)
    more = ("--classes", 3, "--sharing", 0.5, "--distribution", "gaussian", "--force")
    found = run_json("generate", "vectors", "--facts", 9, "--context", 4, "--d-model", 3, "-o", path, *more)
    assert (found["n_classes"], found["shared"]) == (3, False)


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        (["generate", "randon", "-o", "f.csv"], UnknownName, "did you mean 'random'"),
        (["generate", "random", "--vocab", "3", "-o", "f.csv"], UsageError, "need --facts"),
        (["generate", "bigrams", "--vocab", "3", "--facts", "3", "-o", "f.csv"], UsageError, "have no --facts"),
        (["generate", "bigrams", "--vocab", "3", "-o", "f.safetensors"], UsageError, "ends in .csv"),
        (["generate", "bigrams", "--vocab", "0", "-o", "f.csv"], UsageError, "at least 1, got 0"),
        (["show", "elemens"], UnknownName, "did you mean 'elements'"),
        (["show", "elements", "--tokens", "wrods"], UnknownName, "did you mean 'words'"),
        (["show", "elements", "--target", "vlue"], UnknownName, "did you mean 'value'"),
        (["export", "elements", "-o", "f.doc"], RoteError, "known endings"),
    ],
)
def test_refusals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], error: type[RoteError], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=words):
        run(*args)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["list", "show", "export", "generate"])
def test_help_has_an_example(command: str) -> None:
    assert f"rote facts {command}" in " ".join(run(command, "--help").split())


def test_the_command_module_imports_nothing_heavy() -> None:
    code = "import sys, rote.cli.facts; sys.exit(any(m in sys.modules for m in ('numpy', 'polars', 'torch')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
