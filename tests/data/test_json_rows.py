"""Tables in JSON files: lists of objects, and objects with a row for every key."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.cli.main import run
from rote.data.files import read_raw, write_frame
from rote.errors import DataError

ROWS = [{"code": "AF", "name": "Afghanistan"}, {"code": "AL", "name": "Albania"}]


def written(folder: Path, value: Any, name: str = "table.json") -> Path:
    path = folder / name
    data = json.dumps(value).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize(
    ("value", "columns"),
    [
        (ROWS, ["code", "name"]),
        ({"AF": "Afghanistan", "AL": "Albania"}, ["key", "value"]),
        ({"AF": {"name": "Afghanistan"}, "AL": {"name": "Albania"}}, ["key", "name"]),
    ],
)
@pytest.mark.parametrize("name", ["table.json", "table.json.gz"])
def test_lists_and_objects(tmp_path: Path, value: Any, columns: list[str], name: str) -> None:
    path = written(tmp_path, value, name)
    assert read_raw(path).frame.columns == columns
    table = rote.read(path)
    assert rote.build(table).ask("AL", top=1)[0].token == "Albania"


def test_what_an_object_lacks_is_an_empty_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, [{"a": 1, "b": "x"}, {"b": "y", "a": 2, "c": True}, {"a": 3, "b": None, "c": False}])
    frame = read_raw(path).frame
    assert frame.columns == ["a", "b", "c"]
    assert frame.rows() == [("1", "x", None), ("2", "y", "true"), ("3", None, "false")]
    with pytest.raises(DataError, match=r"row 1: column 'c' holds nothing \(2 such cells in 2 rows"):
        rote.read(path)
    assert run(["facts", "show", str(path), "--on-missing", "skip"]) == 0
    assert "2 facts with an empty cell left out" in capsys.readouterr().err


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    frame = read_raw(written(tmp_path, ROWS)).frame
    write_frame(frame, tmp_path / "again.json")
    assert read_raw(tmp_path / "again.json").frame.equals(frame)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "it is empty"),
        ("{}", "it is empty"),
        ("7", "it is one value"),
        ("[[1, 2]]", "row 1 is not an object"),
        ('[{"a": 1}, 2]', "row 2 is not an object"),
        ("[{}]", "the object is empty"),
        ('[{"a": 1, "a": 2}]', "a key appears twice"),
        ('{"x": {"key": 1}}', "a key appears twice"),
        ('[{"a": 1, "b": [1]}]', "row 1: column 'b' cannot be a cell"),
        ('[{"a": 1', "holds no rows of facts"),
        ('[{"a": NaN, "b": 1}]', "holds no rows of facts"),
        ('[{"a": 1, "b": "\\ud800"}]', "half a surrogate pair"),
        ('[{"a": 1, "": 2}]', "column 2 has no name"),
    ],
)
def test_files_that_hold_no_rows(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as refusal:
        rote.read(path)
    assert said in str(refusal.value)
