"""The entries that are built on studies: they can be read, and their figures and sentences ask for what is there."""

from __future__ import annotations

import dataclasses
import json
import string
from pathlib import Path

import pytest

from rote.lab.entries import entries, find_entries, run_entries
from rote.measurement.executors import Local

MINE = [key for key in entries() if key.startswith(("kajitsuka2025/", "questions/"))]


def test_the_questions_are_there() -> None:
    assert {key for key in MINE if key.startswith("questions/")} == {
        "questions/aot_or_mlp",
        "questions/depth",
        "questions/gap",
        "questions/one_matrix",
        "questions/saturation",
        "questions/sharing",
    }


@pytest.mark.parametrize("key", MINE)
def test_every_entry_answers_in_words(key: str) -> None:
    (entry,) = find_entries([key])
    words = entry.record["words"]
    assert {"holds", "fails", "answer"} <= set(words)
    named = {str(test.get("name", "")) for test in entry.tables("test")}
    for text in (*words.values(), *entry.record["deviations"], *(f["caption"] for f in entry.tables("figure"))):
        for _, field, _, _ in string.Formatter().parse(text):
            if field is not None:
                assert any(field.startswith(f"{name}_") for name in named), f"{key}: {field} comes from no test"
    assert entry.cells(quick=True)
    assert entry.cells(quick=False)


def test_an_entry_from_cells_to_files(tmp_path: Path) -> None:
    (entry,) = find_entries(["questions/sharing"])
    record = dict(entry.record)
    record["study"] = [
        {
            "kind": "layer_capacity",
            "base": {"n_heads": 2, "context": 3, "d_model": 5, "d_head": 3},
            "grid": {"method": ["rank"], "contexts": [1, 2, 0]},
        }
    ]
    record["figure"] = [
        {
            "caption": "",
            "panel": [
                {
                    "x": "n_contexts",
                    "y": "capacity",
                    "lines": [{"name": "limit", "y": "limit", "kind": "fit"}],
                }
            ],
        }
    ]
    record["test"] = [test for test in record["test"] if test.get("name") == "law"]
    small = dataclasses.replace(entry, record=record)
    (made,) = run_entries([small], tmp_path, Local(), quick=False)
    assert made.record["verdict"] == "holds"
    assert "in all 3 settings" in made.record["sentence"]
    (panel,) = json.loads((made.folder / "figure.json").read_text())["panels"]
    drawn = {series["name"]: series["y"] for series in panel["series"]}
    assert drawn["limit"] == [5.0, 9.0, 10.0]
    assert all((made.folder / f"figure.{kind}").stat().st_size for kind in ("png", "svg", "pdf"))
