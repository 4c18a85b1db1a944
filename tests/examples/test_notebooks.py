"""The notebooks of examples/ run, and say what they said when they were stored."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import rote

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def _read(path: Path) -> Any:
    reader: Any = nbformat
    notebook = reader.read(path, as_version=4)
    reader.validate(notebook)
    return notebook


def _texts(cell: Any) -> str:
    """What a cell printed and returned; pictures and other renderings are left out."""
    parts = []
    for output in cell.outputs:
        assert output.output_type != "error"
        parts.append(str(output.get("text", output.get("data", {}).get("text/plain", ""))))
    return "".join(parts).strip()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_the_notebook_says_what_it_said(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The kernel is another process, in another folder, and must find the same rote.
    monkeypatch.setenv("PYTHONPATH", str(Path(rote.__file__).resolve().parents[1]))
    stored, fresh = _read(path), _read(path)
    NotebookClient(fresh, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    for before, after in zip(stored.cells, fresh.cells, strict=True):
        if before.cell_type == "code":
            now = _texts(after)
            # Where training stops, and where a fit loses its first fact, depends on the last digits of a machine.
            if "varies" not in before.metadata.get("tags", []):
                assert now == _texts(before), before.source


def test_there_are_notebooks_and_a_page_that_leads_to_them() -> None:
    assert len(NOTEBOOKS) >= 3
    index = (EXAMPLES.parent / "docs" / "index.md").read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        assert f"(../examples/{path.name})" in index


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_of_notebooks_lead_somewhere(path: Path) -> None:
    for cell in _read(path).cells:
        for target in re.findall(r"\]\(([^)\s]+)\)", cell.source if cell.cell_type == "markdown" else ""):
            assert (EXAMPLES / target.split("#")[0]).exists(), target


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_use_public_names_only(path: Path) -> None:
    """`import rote` and its names, `rote.testing`, and the modules that have a `register`."""
    public = {"rote", "rote.testing"}
    for cell in _read(path).cells:
        tree = ast.parse(cell.source if cell.cell_type == "code" else "")
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert all(one.name in public for one in node.names if one.name.split(".")[0] == "rote"), cell.source
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "rote":
                assert node.module in public, cell.source
                names = {one.name for one in node.names}
                assert node.module != "rote" or names <= {*rote.__all__, "theorems"}, cell.source
