from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import rote
from rote.cli.facts import app
from rote.data import VectorTable, bigram_facts, random_sequences
from rote.errors import ConflictError, OutputError, RoteError, UnknownName, UsageError

runner = CliRunner()


def run(*args: object) -> str:
    return said(*args)[0]


def said(*args: object) -> tuple[str, str]:
    """What was printed, and what was said beside it."""
    result = runner.invoke(app, [str(arg) for arg in args])
    if result.exception is not None:
        raise result.exception
    assert result.exit_code == 0
    return result.stdout, result.stderr


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
    assert found["sha256"] == rote.read("elements").sha256
    assert run_json("show", "elements", "--rows", 0)["facts"] == []


def test_show_a_file_with_options(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("a,w,b,c\nx y,1,p,1\nx y,1,q,2\nx y,1,q,2\n")
    with pytest.raises(ConflictError):
        run("show", path, "--columns", "a", "--target", "b")
    found = run_json(
        "show", path, "--columns", "a", "--target", "b", "--on-conflict", "last", "--tokens", "words", "--weight", "w"
    )
    assert found["facts"] == [{"context": ["x", "y"], "target": "q", "weight": 1.0}]
    assert (found["read"]["n_conflicts_resolved"], found["read"]["n_duplicates"]) == (1, 1)
    _, beside = said("show", path, "--columns", "a", "--target", "b", "--on-conflict", "last")
    assert "1 exact duplicate " in beside
    assert "1 contradictory fact dropped, the last kept" in beside


def test_show_finds_out_what_a_file_holds(tmp_path: Path) -> None:
    counts, pairs = tmp_path / "counts.csv", tmp_path / "pairs.csv"
    counts.write_text("a,next,count\nx,y,3\nx,z,1\n")
    found = run_json("show", counts)
    assert found["kind"] == "distributions"
    assert found["facts"] == [{"context": ["x"], "prior": 1.0, "next": {"y": 0.75, "z": 0.25}}]
    pairs.write_text("x1,x2,y1,y2\nx,y,1,2\n")
    found = run_json("show", pairs)
    assert (found["kind"], found["facts"]) == ("sequences", [{"context": ["x", "y"], "target": ["1", "2"]}])


def test_user_data_cannot_style_or_break_the_table(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text('[bold]h,t\n[red]x[/red],[/]\n\x1b[31mz,[link=http://x]y\n"a\nb",c\n')
    text = run("show", path)
    for token in ("[red]x[/red]", "[/]", "\\x1b[31mz", "[link=http://x]y", "a\\nb"):
        assert token in text
    assert "\x1b" not in text


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_export(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out.{ending}"
    assert "778" in run("export", "countries", "-o", path)
    table = rote.read(path)
    assert table == rote.read("countries")
    assert table.reading is not None
    assert (*table.reading.columns, *table.reading.target) == ("country", "property", "value")
    before = path.read_bytes()
    with pytest.raises(OutputError, match="exists already; pass --force"):
        run("export", "elements", "-o", path)
    assert path.read_bytes() == before
    assert run_json("export", "elements", "-o", path, "--force")["n_facts"] == 472
    assert rote.read(path) == rote.read("elements")


def test_export_keeps_cells_whole_and_converts_files(tmp_path: Path) -> None:
    pytest.importorskip("pycountry")
    run("export", "languages", "-o", tmp_path / "l.csv")
    assert rote.read(tmp_path / "l.csv", tokens="chars") == rote.read("languages")
    run("export", tmp_path / "l.csv", "-o", tmp_path / "l.parquet")
    assert rote.read(tmp_path / "l.parquet") == rote.read("languages", tokens="cells")


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
    assert rote.read(path) == bigram_facts(7, rng=np.random.default_rng(0))
    run("generate", "sequences", "--facts", 30, "--context", 3, "--vocab", 5, "--classes", 2, "-o", path, "--force")
    assert rote.read(path) == random_sequences(30, 3, 5, 2, rng=np.random.default_rng(0))


def test_generate_vectors(tmp_path: Path) -> None:
    path = tmp_path / "v.safetensors"
    run("generate", "vectors", "--facts", 9, "--context", 4, "--d-model", 3, "--sharing", "shared", "-o", path)
    table = rote.read(path)
    assert isinstance(table, VectorTable) and table.shared
    assert run_json("show", path)["sha256"] == table.sha256
    assert "n_facts" in run("show", path)
    assert run_json("show", path, "--rows", 1)["kind"] == "vectors"
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


@pytest.mark.parametrize("command", ["list", "show", "export", "generate", "ngrams", "distribution"])
def test_help_has_an_example(command: str) -> None:
    assert f"rote facts {command}" in " ".join(run(command, "--help").split())


def test_the_command_module_imports_nothing_heavy() -> None:
    code = "import sys, rote.cli.facts; sys.exit(any(m in sys.modules for m in ('numpy', 'polars', 'torch')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
