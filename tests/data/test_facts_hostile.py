"""Hostile files: the result equals that of a plain twin, or it is a RoteError; never anything else."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Literal

import polars as pl
import pytest
from facts_twin import Fact, Refused, check_invariants, facts_of, read_facts, twin_facts, twin_read
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.data import FactTable, Reading
from rote.data import separated as separated_module
from rote.errors import RoteError

Tokens = Literal["cells", "words", "chars"]
OnConflict = Literal["error", "first", "last"]
TOKENS = st.sampled_from(["cells", "words", "chars"])
CHOICES = st.sampled_from(["error", "first", "last"])
# few distinct cells make repeats and contradictions likely; the rest is what breaks parsers
NASTY = st.sampled_from(
    ["a", "b", "a b", " a", "007", "7", "<pad>", "[red]x", "a,b", 'q"q', '"', "l\nm", "c\rd", "\r\n", "é", "e\u0301",
     "\u2028", "\x85", "\x1c", "\ufeff", "😀", "\t", "", " ", "NaN", "null", "None", "#c", "-0", "1e5", "\x1b[31m"]
)  # fmt: skip
CELL = st.one_of(NASTY, st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6))
ROWS = st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(CELL, min_size=width, max_size=width), max_size=8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


def outcome(path: Path, tokens: Tokens = "cells", on_conflict: OnConflict = "error") -> tuple[FactTable, Reading] | str:
    """The table and its report, or the words of a RoteError; any other exception escapes and fails the test."""
    try:
        return read_facts(path, tokens=tokens, on_conflict=on_conflict)
    except RoteError as error:
        return str(error)


def compare(path: Path, data: bytes, tokens: Tokens, on_conflict: OnConflict) -> None:
    path.write_bytes(data)
    got = outcome(path, tokens, on_conflict)
    wanted: list[Fact] | None
    try:
        wanted = twin_read(data, "\t" if path.suffix == ".tsv" else ",", tokens, on_conflict)
    except Refused:
        wanted = None
    if wanted is None:
        assert isinstance(got, str), "accepted what the twin refuses"
        return
    assert not isinstance(got, str), f"refused what the twin accepts: {got}"
    table, report = got
    check_invariants(table)
    assert facts_of(table) == wanted
    assert report.n_rows - report.n_duplicates - report.n_conflicts_resolved == table.n_facts


@settings(max_examples=400, deadline=None)
@given(data=st.binary(max_size=60), tokens=TOKENS)
def test_random_bytes(folder: Path, data: bytes, tokens: Tokens) -> None:
    compare(folder / "bytes.csv", data, tokens, "error")


@settings(max_examples=600, deadline=None)
@given(text=st.text(st.sampled_from('ab,"\n\r\t <pad>é\ufeff\x1c\x85'), max_size=40), tokens=TOKENS, choice=CHOICES)
def test_random_punctuation(folder: Path, text: str, tokens: Tokens, choice: OnConflict) -> None:
    compare(folder / "marks.csv", b"x,y\n" + text.encode(), tokens, choice)
    compare(folder / "marks.tsv", b"x\ty\n" + text.encode(), tokens, choice)


@settings(max_examples=300, deadline=None)
@given(rows=ROWS, tokens=TOKENS, choice=CHOICES, quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_random_cells(folder: Path, rows: list[list[str]], tokens: Tokens, choice: OnConflict, quoting: int) -> None:
    for ending, separator in (("csv", ","), ("tsv", "\t")):
        buffer = io.StringIO(newline="")
        writer = csv.writer(buffer, delimiter=separator, quoting=quoting)  # type: ignore[arg-type]
        writer.writerows([[f"h{k}" for k in range(len(rows[0]) if rows else 2)], *rows])
        compare(folder / f"cells.{ending}", buffer.getvalue().encode(), tokens, choice)


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(st.lists(st.sampled_from(["a", "b", "c c", "7"]), min_size=2, max_size=4), min_size=1, max_size=6))
def test_ragged_rows(folder: Path, rows: list[list[str]]) -> None:
    data = "\n".join(",".join(row) for row in [["x", "y", "z"], *rows]).encode()
    compare(folder / "ragged.csv", data, "cells", "last")
    wrong = [number for number, row in enumerate(rows, 1) if len(row) != 3]
    if wrong:
        said = outcome(folder / "ragged.csv")
        assert isinstance(said, str)
        assert f"row {wrong[0]} (line {wrong[0] + 1})" in said


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.lists(st.sampled_from(["a", "b c", "d", " e "]), min_size=3, max_size=3), min_size=1, max_size=12),
    tokens=TOKENS,
    choice=CHOICES,
    ends=st.sampled_from(["\n", "\r\n"]),
)
def test_the_quick_road_equals_the_careful_one(
    folder: Path, rows: list[list[str]], tokens: Tokens, choice: OnConflict, ends: str
) -> None:
    data = ends.join(",".join(row) for row in [["x", "y", "z"], *rows]).encode()
    assert separated_module._read_plain(data, "f", ",") is not None
    compare(folder / "quick.csv", data, tokens, choice)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), CELL, st.just("\ud800"), st.just("\0")),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=2), inner, max_size=2)),
    max_leaves=3,
)


def spelled(value: object) -> str:
    """The cell that a JSON value stands for."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        value.encode()
        if "\0" in value:
            raise ValueError("NUL")
    if (isinstance(value, float) and value - value != 0) or isinstance(value, list | dict) or value is None:
        raise ValueError("no cell")
    return str(value).strip()


@settings(max_examples=300, deadline=None)
@given(rows=st.lists(st.fixed_dictionaries({"x": JSON, "y": JSON}), max_size=5), tokens=TOKENS, choice=CHOICES)
def test_json_lines(folder: Path, rows: list[dict[str, object]], tokens: Tokens, choice: OnConflict) -> None:
    path = folder / "lines.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    got = outcome(path, tokens, choice)
    try:
        # hypothesis shuffles the keys of each row; the first row sets the order of the columns
        cells = [[spelled(row[name]) for name in rows[0]] for row in rows]
        if not cells or any("" in row for row in cells):
            raise Refused("empty")
        wanted = twin_facts(cells, tokens, choice)
    except (Refused, ValueError):
        assert isinstance(got, str)
        return
    assert not isinstance(got, str), got
    check_invariants(got[0])
    assert facts_of(got[0]) == wanted


@settings(max_examples=300, deadline=None)
@given(data=st.one_of(st.binary(max_size=60), st.text(st.sampled_from('{}[]":,xy1e.-\\u0\n '), max_size=40)))
def test_bytes_as_json_lines_and_parquet(folder: Path, data: bytes | str) -> None:
    raw = data if isinstance(data, bytes) else data.encode()
    for name in ("any.jsonl", "any.parquet", "any.csv.gz"):
        (folder / name).write_bytes(raw)
        outcome(folder / name)


@settings(max_examples=12, deadline=None)
@given(raw=st.binary(max_size=60))
def test_bytes_framed_as_parquet(folder: Path, raw: bytes) -> None:
    (folder / "framed.parquet").write_bytes(b"PAR1" + raw + len(raw).to_bytes(4, "little") + b"PAR1")
    outcome(folder / "framed.parquet")


def test_damaged_parquet_never_escapes(folder: Path) -> None:
    path = folder / "whole.parquet"
    pl.DataFrame({"x": ["a", "b", "c"], "y": ["d", "e", "f"]}).write_parquet(path)
    whole = path.read_bytes()
    # A process for each, so only some places; the campaign of odd inputs tries others.
    for at in range(8, len(whole), len(whole) // 8):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]):
            (folder / "damaged.parquet").write_bytes(damaged)
            outcome(folder / "damaged.parquet")
