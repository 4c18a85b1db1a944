"""The readers of bytes, JSON and TOML: what is absurd is refused in a sentence, and at once."""

from __future__ import annotations

import contextlib
import gzip
import os
import socket
from pathlib import Path
from random import Random

import polars as pl
import pytest

import rote
from rote.data import contents as contents_module
from rote.data.contents import contents, read_plain, regular
from rote.data.records import MOST_DEPTH, parse_json, read_json, read_toml
from rote.errors import CheckpointError, DataError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested more than 64"),
        ("[" * 200 + "]" * 200, "nested more than 64"),
        ('{"a":' * 100_000, "nested more than 64"),
        ("9" * 5000, "more than 300 digits"),
        ("-" + "9" * 301, "more than 300 digits"),
        ("1e999", "1e999 is too large"),
        ("[NaN]", "NaN is no number"),
        ("-Infinity", "Infinity is no number"),
        ('{"a": 1, "b": {"a": 2, "a": 3}}', "the key 'a' appears twice"),
        ('"\\ud800"', "half a surrogate pair"),
        ('{"\\udc00": 1}', "half a surrogate pair"),
        ("{} {}", "something follows"),
        ("", "Expecting value"),
    ],
)
def test_json_that_nobody_should_read(text: str, words: str) -> None:
    with pytest.raises(CheckpointError, match=words) as caught:
        parse_json(text, "here", refuse=CheckpointError, remedy="mend it")
    assert str(caught.value).startswith("here is no valid JSON (")
    assert str(caught.value).endswith("; mend it.")


def test_json_that_is_read() -> None:
    deep = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    assert parse_json(deep, "x") is not None
    assert parse_json(b'\xef\xbb\xbf{"a": "\\ud83d\\ude00", "b": 1e3}', "x") == {"a": "😀", "b": 1000.0}
    assert float(parse_json("9" * 300, "x")) > 1e299


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 50_000, "nested more than 64"),
        ("a = " + "[" * 80 + "]" * 80, "nested more than 64"),
        ("a = " + "9" * 5000, "more than 300 digits"),
        ("a = 0x" + "f" * 5000, "more than 300 digits"),
        ("a = 1e999", "too large"),
        ("a = nan", "nan is no number"),
        (".".join("a" * 100_000) + " = 1", "more than 64 parts"),
        ('"a b".' * 20_000 + "a = 1", "more than 64 parts"),
        ("a = 1\na = 2", "Cannot overwrite"),
        ("a = '\0'", "NUL byte"),
    ],
)
def test_toml_that_nobody_should_read(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=words):
        read_toml(path)


def test_too_much_toml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(DataError, match="the limit is 1 MB"):
        read_toml(path)


def test_a_json_file_must_hold_an_object(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("[1]")
    with pytest.raises(DataError, match="must hold a JSON object, got a list; write it again"):
        read_json(path)


def special(kind: str, path: Path) -> Path:
    """Something with a name that is no file."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    return path


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "parquet", "safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
def test_only_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, ending: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = special(kind, Path(f"x.{ending}"))
    with pytest.raises(DataError, match=r"is a directory|is a device, a pipe or a socket"):
        rote.read(path)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_certificate_that_is_no_file(tmp_path: Path, kind: str) -> None:
    special(kind, tmp_path / "certificate.json")
    with pytest.raises(CheckpointError, match=r"certificate\.json is no file"):
        rote.load(tmp_path)


def test_what_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"x" * (8 << 20)))
    assert len(contents(path, packed=True)) > 8 << 20
    with pytest.raises(DataError, match="unpacks to more than 4 MB"):
        contents(path, most=4 << 20, packed=True)
    with pytest.raises(DataError, match=r"has .* bytes, and the limit is 64 bytes"):
        contents(path, most=64)
    assert contents_module.MOST_BYTES == 1 << 29


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    for name in ("a\0b.csv", "x" * 5000 + ".csv"):
        with pytest.raises(DataError, match="cannot read"):
            regular(tmp_path / name)
    with pytest.raises(DataError, match="there is no file"):
        read_plain(tmp_path / "nothing.txt")


def test_a_damaged_parquet_file_ends_nobody(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With change 147 polars 1 ends the process that reads the file; the others are there for its neighbours."""
    path = tmp_path / "x.parquet"
    pl.DataFrame({"a": ["x", "y"] * 9, "b": ["u", "v"] * 9}).write_parquet(path)
    whole, rng = path.read_bytes(), Random(0)
    for number in range(150):
        bent = bytearray(whole)
        for _ in range(3):
            bent[rng.randrange(len(bent))] = rng.randrange(256)
        if number < 140:
            continue
        path.write_bytes(bent)
        with contextlib.suppress(rote.RoteError):
            rote.read(path)
    assert "panicked" not in capfd.readouterr().err
