"""Bounds at many shapes, and bounds that a table settles."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import rote
from rote.cli.main import run
from rote.data import random_vectors
from rote.errors import ShapeError, UsageError

SHAPE = ["--d-model", "64", "--context", "32", "--vocab", "1000"]


def test_a_frame_has_what_bounds_say_at_every_shape() -> None:
    frame = rote.bounds_frame(n_heads=range(1, 4), d_model=[8, 16], context=4, vocab=50)
    assert len(frame) == 6 * len(rote.bounds(rote.Architecture(1, 8, 8, 4, 50)))
    for row in frame.to_dicts():
        arch = rote.Architecture(row["n_heads"], row["d_model"], row["d_head"], row["context"], row["vocab"])
        one = rote.bounds(arch, [row["theorem"]])[0]
        assert (one.facts, one.params, one.applies) == (row["facts"], row["params"], row["applies"])
        assert row["d_head"] == row["d_model"]


def test_a_figure_in_the_same_call(tmp_path: Path) -> None:
    rote.bounds_frame(n_heads=[1, 2, 4], d_model=8, context=4, vocab=50, plot=tmp_path / "b.svg", only=["counting"])
    assert "counting" in (tmp_path / "b.svg").read_text()
    with pytest.raises(UsageError, match="one size that varies"):
        rote.bounds_frame(n_heads=[1, 2], d_model=[8, 16], context=4, vocab=50, plot=tmp_path / "c.svg")
    assert not (tmp_path / "c.svg").exists()


def test_rows_of_csv(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bound", "--heads", "1..128", *SHAPE, "--theorem", "dana2025_cor1", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [int(row["facts"]) for row in rows] == [64 * heads + 64 for heads in range(1, 129)]
    assert run(["bound", "--heads", "4,8..16:4", *SHAPE, "--json"]) == 0
    assert {row["n_heads"] for row in json.loads(capsys.readouterr().out)} == {4, 8, 12, 16}
    assert run(["bound", "--heads", "1..3", *SHAPE]) == 0
    assert "3 shapes" in capsys.readouterr().out


@pytest.mark.parametrize("heads", ["", "x", "3..1", "1..8:0", "1,,2", "1..99999999", "-1", "1.5", "0"])
def test_sizes_that_make_no_sense(heads: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bound", "--heads", heads, *SHAPE]) == 2
    assert "heads" in capsys.readouterr().err


def test_a_screenful_first_and_the_rest_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bound", "--heads", "8", *SHAPE]) == 0
    brief = capsys.readouterr().out
    assert len(brief.splitlines()) <= 24
    assert all(name in brief for name in ("576", "counting", "838,452", "--all"))
    assert run(["bound", "--heads", "8", *SHAPE, "--all"]) == 0
    assert "kim2023" in capsys.readouterr().out and "kim2023" not in brief


def test_a_table_settles_conditions() -> None:
    table = rote.read("countries")
    arch = rote.Architecture(16, 64, 64, table.context, 972)
    answer = {one.theorem: one for one in rote.bounds(arch, table=table)}
    assert answer["dana_rank_limit"].facts == 1028 and not answer["dana_rank_limit"].open
    assert answer["dana2025_cor1"].facts is None  # they end in 4 different tokens
    assert "mahdavi2024_thm1" not in answer  # which is about vectors
    assert "all 778 fit (dana_rank_limit" in rote.bounds(arch, table=table).verdict()
    few = rote.bounds(arch.replace(n_heads=1), table=table)
    assert "no theorem says that 778 fit" in few.verdict()
    with pytest.raises(ShapeError, match="context 2"):
        rote.bounds(arch.replace(context=3), table=table)


def test_vectors_bring_their_own_conditions() -> None:
    table = random_vectors(20, 4, 8, rng=np.random.default_rng(0))
    arch = rote.Architecture(8, 8, 8, 4, max(2, table.demand("float64", rote.Shape()).vocab))
    answer = {one.theorem: one for one in rote.bounds(arch, table=table)}
    assert answer["mahdavi2024_thm1"].facts == 8 * 3 + 1 and not answer["mahdavi2024_thm1"].open
    assert answer["mahdavi2024_kruskal"].facts is not None


def test_too_many_facts_do_not_fit() -> None:
    table = rote.read("countries")
    tiny = rote.Setting(rote.Architecture(1, 1, 1, 2, 972), dtype="bfloat16", n_facts=10**9)
    assert "do not fit (counting" in rote.bounds(tiny, table=table).verdict()


def test_a_frame_of_a_table_settles_its_conditions() -> None:
    countries = rote.read("countries")
    frame = rote.bounds_frame(countries, n_heads=[8, 16], d_model=64, only=["dana_rank_limit", "dana2025_cor1"])
    told = {(row["n_heads"], row["theorem"]): (row["facts"], row["applies"]) for row in frame.to_dicts()}
    assert told[16, "dana_rank_limit"] == (1028, True) and told[8, "dana2025_cor1"] == (None, False)
    assert len(told) == 4
    with pytest.raises(UsageError, match="leave them out"):
        rote.bounds_frame(countries, n_heads=8, d_model=64, vocab=972)
    with pytest.raises(UsageError, match="or a table"):
        rote.bounds_frame(n_heads=8, d_model=64, vocab=972)
    with pytest.raises(UsageError, match="got a str"):
        rote.bounds_frame("countries", n_heads=8, d_model=64)  # type: ignore[arg-type]


def test_a_table_without_a_shape_is_told_where_shapes_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bound", "countries", "--heads", "4"]) == 2
    said = capsys.readouterr().err
    assert "missing: --d-model" in said and "rote plan countries" in said and "--vocab" not in said
