"""Capacity: the search, training and building side by side, and the command."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from rote.cli.main import run
from rote.data import FactTable
from rote.errors import CapacityError, RoteError, UsageError
from rote.measurement import Cell, measure, measure_cell
from rote.measurement.capacity import student_interval
from rote.measurement.machine import memory_bytes
from rote.measurement.run import draw, run_group
from rote.measurement.search import largest


@pytest.mark.parametrize("start", [1, 7, 100, 5000])
@pytest.mark.parametrize("limit", [0, 1, 2, 3, 50, 99, 1000, 1001])
def test_the_search_finds_the_limit(start: int, limit: int) -> None:
    asked = 0

    def ask(counts: Mapping[int, int]) -> dict[int, bool]:
        nonlocal asked
        asked += 1
        assert all(1 <= count <= 1000 for count in counts.values())
        return {seed: count <= limit + seed for seed, count in counts.items()}

    found = largest([0, 1], ask, start=start, most=1000, tolerance=0.0)
    for seed, bracket in found.items():
        assert bracket.low == min(1000, limit + seed)
        assert bracket.high == bracket.low + 1
    assert asked < 60
    wide = largest([0], ask, start=start, most=1000, tolerance=0.1)[0]
    assert wide.high is not None
    assert wide.low <= limit < wide.high or wide.low == 1000
    assert wide.high - wide.low <= max(1, 0.1 * wide.low)


def test_longer_tables_begin_with_shorter_ones() -> None:
    cell = Cell(1, 2, 2, 30)
    short, long = draw(cell, 10), draw(cell, 700)
    assert isinstance(short, FactTable) and isinstance(long, FactTable)
    assert (long.contexts[:10] == short.contexts).all() and (long.targets[:10] == short.targets).all()
    assert draw(cell.replace(seed=1), 10) != short


def test_built_capacity_is_the_bound() -> None:
    found = measure_cell(Cell(3, 4, 2, 12, by="dana2025_cor1"), seeds=2)
    assert found.capacity == 3 * 4 + 4
    assert [item["capacity"] for item in found.by_seed] == [16, 16]
    best = measure_cell(Cell(3, 4, 2, 12, by="build"), seeds=1)
    assert best.capacity >= 16
    assert best.interval is None


def test_measuring_by_plain_arguments() -> None:
    held = measure(n_heads=3, d_model=4, context=2, vocab=12, with_="dana2025_cor1", seeds=2, max_memory="1GB")
    assert held.to_dict() == measure_cell(Cell(3, 4, 2, 12, by="dana2025_cor1"), seeds=2).to_dict()
    assert repr(held) == f"Measurement(16 facts (16 to 16) in {held.params} parameters, built by dana2025_cor1)"
    assert "lower: dana2025_cor1" in held._repr_html_()
    later = measure(n_heads=1, d_model=4, context=2, vocab=12, with_="dana2025_cor1", seeds=2, seed=5)
    assert [item["seed"] for item in later.by_seed] == [5, 6]
    with pytest.raises(UsageError, match="2GB"):
        measure(n_heads=1, d_model=4, context=2, vocab=12, max_memory="lots")


def test_every_builder_of_tokens_in_floats() -> None:
    for by, extra in (("argmax_fit", {}), ("mlp_fit", {"d_mlp": 16}), ("dana2025_cor1", {})):
        (item,) = run_group([Cell(2, 8, 2, 12, by=by, tolerance=0.2, **extra).to_dict()])  # type: ignore[arg-type]
        assert item["status"] == "done", item
        assert item["capacity"] >= 8
        assert item["failed_at"] > item["capacity"]


def test_vectors_can_be_built_too() -> None:
    (item,) = run_group([Cell(2, 6, 4, 0, family="layer", by="mahdavi2024_thm1", sharing=0.0, d_head=3).to_dict()])
    assert item["status"] == "done" and item["capacity"] == 2 * (3 - 1) + 1


def test_trained_and_built_side_by_side() -> None:
    found = measure_cell(Cell(2, 4, 2, 10, steps=200, tolerance=0.2), seeds=2)
    record = found.to_dict()
    assert record["capacity"] == sum(item["capacity"] for item in record["seeds"]) // 2
    assert record["interval"][0] <= record["capacity"] + 1 and record["bits_per_param"] > 0
    assert {item["construction"] for item in record["built"]} == {"argmax_fit", "dana2025_cor1"}
    assert {"dana2025_cor1", "counting"} <= {item["theorem"] for item in record["bounds"]}
    # Never below a construction without saying so.
    first = record["seeds"][0]["capacity"]
    for item in record["built"]:
        if item["capacity"] is not None and item["capacity"] > first:
            assert any(item["construction"] in note for note in record["notes"])
    weak = measure_cell(Cell(2, 4, 2, 10, steps=3, tolerance=0.1), seeds=1)
    assert weak.notes and "training" in weak.notes[0]


def test_the_smallest_shapes() -> None:
    for cell in (Cell(1, 1, 1, 2, steps=50), Cell(1, 1, 2, 2, steps=50), Cell(1, 2, 1, 3, steps=50)):
        (item,) = run_group([cell.to_dict()])
        assert item["status"] == "done"
        assert 0 <= item["capacity"] <= cell.most
    (item,) = run_group([Cell(1, 2, 2, 2, task="recall", n_facts=1, steps=50).to_dict()])
    assert item["recalled"] == 1


def test_a_group_has_one_shape() -> None:
    found = run_group([Cell(1, 2, 2, 3).to_dict(), Cell(2, 2, 2, 3).to_dict()])
    assert all(item["status"] == "failed" and "seeds" in item["reason"] for item in found)


def test_overload_changes_the_loss() -> None:
    assert Cell(1, 4, 2, 50, task="recall").training().name == "best_overload"
    assert Cell(16, 10, 2, 50, task="recall", n_facts=1500).training().name == "best"


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["measure", "--heads", "2", "--d-model", "4", "--vocab", "8", "--context", "2", "--with", "dana2025_cor1"]
    assert run([*words, "--seeds", "2", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["capacity"] == 12 and record["params"] > 0
    assert run([*words, "--seeds", "2"]) == 0
    assert "12" in capsys.readouterr().out
    for bad, said in (
        (["--seeds", "0"], "seed"),
        (["--recipe", "bets"], "best"),
        (["--max-memory", "lots"], "2GB"),
        (["--device", "tpu"], "cpu"),
        (["--sharing", "some"], "sharing"),
        (["--recall", "1.5"], "recall"),
    ):
        assert run([*words, *bad]) == 2
        assert said in capsys.readouterr().err


def test_what_cannot_be_measured_is_said() -> None:
    with pytest.raises(CapacityError, match="gave no capacity"):
        measure_cell(Cell(1, 8, 2, 4, by="mlp_fit", d_mlp=0), seeds=1)
    with pytest.raises(UsageError, match="sweep"):
        measure_cell(Cell(1, 2, 2, 4, task="recall"), seeds=1)
    with pytest.raises(RoteError):
        Cell(1, 2, 2, 4, by="mahdavi2024_thm1")


def test_sizes_and_intervals() -> None:
    assert memory_bytes("2GB") == 2 * 10**9 and memory_bytes("512 MiB") == 2**29 and memory_bytes(None) is None
    for text in ("0", "-1GB", "GB", "1 parsec"):
        with pytest.raises(UsageError):
            memory_bytes(text)
    assert student_interval([3.0]) is None
    span = student_interval([1.0, 2.0, 3.0])
    assert (
        span is not None and span[0] == pytest.approx(2 - 4.302653 / 3**0.5) and span[1] == pytest.approx(4 - span[0])
    )
