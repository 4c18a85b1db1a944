"""The notebooks of examples/ run, and say what they said when they were stored."""

from __future__ import annotations

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
    found = reader.read(path, as_version=4)
    reader.validate(found)
    return found


def _texts(cell: Any) -> list[str]:
    """What a cell printed or returned; pictures are left out."""
    found = []
    for output in cell.outputs:
        assert output.output_type != "error"
        data = output.get("data", {})
        if "image/png" not in data:
            found.append(str(output.get("text", data.get("text/plain", ""))).strip())
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_the_notebook_says_what_it_said(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The kernel is another process, in another folder, and must find the same rote.
    monkeypatch.setenv("PYTHONPATH", str(Path(rote.__file__).resolve().parents[1]))
    stored, made = _read(path), _read(path)
    NotebookClient(made, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    for before, after in zip(stored.cells, made.cells, strict=True):
        if before.cell_type == "code":
            now = _texts(after)
            # Where training stops depends on the last digits of a machine.
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
