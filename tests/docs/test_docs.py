"""The documentation says what the code does: generated parts, terminal sessions, Python examples, links."""

from __future__ import annotations

import doctest
import importlib.util
import re
import subprocess
import sys
import tomllib
import urllib.parse
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rote
from rote._version import DISTRIBUTION
from rote.errors import install_command

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"rote_docs_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


SESSIONS = _load(DOCS / "make_sessions.py")
PLAYED = [session for page in SESSIONS.all_pages() for session in SESSIONS.sessions(page)]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_generated_parts_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(DOCS / "make_tables.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_stale_parts_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = _load(DOCS / "make_tables.py")
    page = tmp_path / "page.md"
    page.write_text("old\n", encoding="utf-8")
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    monkeypatch.setattr(tables, "pages", lambda: {page: "new\n"})
    assert tables.main(["--check"]) == 1
    assert page.read_text(encoding="utf-8") == "old\n"
    assert tables.main([]) == 0
    assert tables.main(["--check"]) == 0
    assert tables.main(["--chek"]) == 2
    with pytest.raises(SystemExit, match="found 0"):
        tables.fill("a page without markers", "theorems", "body")


@pytest.mark.parametrize("session", PLAYED, ids=lambda session: session.name)
def test_sessions_give_the_same_output(session: Any) -> None:
    for now, then in zip(SESSIONS.play(session), session.steps, strict=True):
        assert SESSIONS.normal(now.output) == SESSIONS.normal(then.output), (
            f"$ {now.command}\nhas another output now; run `python docs/make_sessions.py`"
        )


def test_the_readme_has_sessions() -> None:
    page = ROOT / "README.md"
    assert len(SESSIONS.sessions(page)) + len(SESSIONS.sessions(page, slow=True)) >= 1
    assert all(step.output for session in SESSIONS.sessions(page, slow=True) for step in session.steps)


def test_names_of_pages_and_flags_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert SESSIONS.main(["--chek"]) == SESSIONS.main(["docs/no.md"]) == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_python_examples_run(page: Path) -> None:
    blocks = re.findall(r"^```pycon\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    runner = doctest.DocTestRunner(verbose=False)
    for number, block in enumerate(blocks, 1):
        example = doctest.DocTestParser().get_doctest(block, {}, f"{_name(page)}, block {number}", str(page), 0)
        complaints: list[str] = []
        assert runner.run(example, out=complaints.append).failed == 0, "".join(complaints)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_relative_links_resolve(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = urllib.parse.unquote(target).partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{_name(page)} links to {target}, which does not exist"
        assert file.is_relative_to(ROOT), f"{_name(page)} links to {target}, outside of the project"
        if anchor:
            assert anchor in _anchors(file), f"{_name(page)} links to {target}, but there is no such heading"


def _anchors(page: Path) -> set[str]:
    """Headings as GitHub spells them in addresses."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert page.name == "index.md" or f"({page.name})" in index, f"docs/index.md does not lead to {page.name}"


def test_the_figure_is_drawn_from_growing_curves() -> None:
    curves = _load(DOCS / "make_figures.py").data()
    assert {curve.kind for curve in curves} == {"lower", "upper", "empirical"}
    for curve in curves:
        assert len(curve.points) > 10
        assert sorted(curve.points) == list(curve.points)
        assert sorted(facts for _, facts in curve.points) == [facts for _, facts in curve.points]
    assert (DOCS / "images" / "bounds.svg").exists()
    assert (DOCS / "images" / "bounds.png").exists()


def test_the_attention_figure_shows_what_the_proof_says() -> None:
    layer = _load(DOCS / "make_figures.py").attention_data()
    n_examples, n_heads, _ = layer.weights.shape
    assert sorted([layer.base, *(example for group in layer.served for example in group)]) == list(range(n_examples))
    for head in range(n_heads):
        for example in range(n_examples):
            assert (layer.spilled[example, head] > 1e-6) == (example in layer.served[head])
    assert (DOCS / "images" / "who_serves_whom.svg").exists()
    assert (DOCS / "images" / "who_serves_whom.png").exists()


def test_the_shift_figure_reads_its_own_digits() -> None:
    shift = _load(DOCS / "make_exact_figures.py").shift_data()
    size = 2**shift.bits
    read = [size * before - after for before, after in zip(shift.stops[:-1], shift.stops[1:], strict=True)]
    assert tuple(read) == shift.digits
    assert shift.stops[-1] == 0
    assert (DOCS / "images" / "tent_shift.svg").exists()
    assert (DOCS / "images" / "tent_shift.png").exists()


def test_the_figure_of_exact_networks_keeps_above_the_bounds() -> None:
    curves = {curve.key: dict(curve.points) for curve in _load(DOCS / "make_exact_figures.py").data(most=400)}
    for variant in ("A", "B", "C"):
        for n, params in curves[variant].items():
            assert params > max(curves["vc"][n], curves["counting"][n])
    assert (DOCS / "images" / "exact_params.svg").exists()
    assert (DOCS / "images" / "exact_params.png").exists()


def test_results_are_what_their_records_say() -> None:
    """Every sentence of the page is in an entry.json, and every entry has its rows, figure and data beside it."""
    results = _load(DOCS / "make_results.py")
    records = results.load(DOCS / "results")
    assert results.page(records) == (DOCS / "results.md").read_text(encoding="utf-8")
    assert {record["entry"] for record in records} >= {"dana2025/exp1", "mahdavi2024/heads", "questions/gap"}
    for record in records:
        place = DOCS / "results" / record["entry"]
        for name in (
            "rows.csv",
            *(f"{figure['name']}.{kind}" for figure in record["figures"] for kind in ("png", "json")),
        ):
            assert (place / name).is_file(), f"{record['entry']} lacks {name}"


def test_the_citation_has_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {rote.__version__}\n" in text
    assert f"\n## [{rote.__version__}] - 20" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for paper in ("2306.02010", "2411.10115", "2409.17677"):
        assert f"arXiv:{paper}" in text


def test_every_hint_installs_this_distribution() -> None:
    """The name `rote` on PyPI is a stranger's: nothing that we write may tell people to install it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == DISTRIBUTION != "rote"
    extras = project["optional-dependencies"]
    for extra, needs in extras.items():
        for need in needs:
            assert not re.match(r"rote\b(?!-)", need), f"the extra {extra} asks for {need}"
    assert install_command("ui") == f"pip install '{DISTRIBUTION}[ui]'"
    written = [
        path
        for place, kinds in {
            "src": ("py", "js", "html"),
            "docs": ("md",),
            "examples": ("ipynb", "md"),
            ".": ("md",),
        }.items()
        for kind in kinds
        for path in (ROOT.glob(f"*.{kind}") if place == "." else (ROOT / place).rglob(f"*.{kind}"))
    ]
    assert len(written) > 100
    for path in written:
        for line in path.read_text(encoding="utf-8").splitlines():
            for hint in re.findall(r"pip install ['\"]?([A-Za-z][\w.-]*|\.)\[(\w+)\]", line):
                assert hint[0] in (DISTRIBUTION, "."), f"{path.relative_to(ROOT)}: {line.strip()}"
                assert hint[1] in extras, f"{path.relative_to(ROOT)}: {line.strip()}"
            assert not re.search(r"pip install ['\"]?rote(?![\w-])", line), f"{path.relative_to(ROOT)}: {line.strip()}"
