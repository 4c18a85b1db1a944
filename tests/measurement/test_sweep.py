"""Cells, sweeps and the journal: typed, resumable, and never half-written."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rote.cli.main import run
from rote.errors import DataError, OutputError, RoteError, UnknownName, UsageError
from rote.measurement import Cell, Journal, read_sweep, results, run_sweep, sweep
from rote.measurement.executors import Local
from rote.measurement.sweeps import Group, Progress, Sweep, Work
from rote.measurement.where import select

GRID = """
name = "small"
seeds = 3
[base]
task = "recall"
by = "dana2025_cor1"
d_model = 3
context = 2
vocab = 6
n_facts = 6
[grid]
n_heads = [1, 2, 3]
[quick]
n_heads = [1]
seeds = 1
"""


def written(place: Path, text: str = GRID) -> Path:
    file = place / "grid.toml"
    file.write_text(text, encoding="utf-8")
    return file


def rows(db: Path) -> list[dict[str, Any]]:
    with Journal(db, write=False) as journal:
        return [{k: v for k, v in row.items() if k not in ("duration", "finished")} for row in journal.rows()]


class Stub:
    """Results made of the cells themselves, a few milliseconds each."""

    def __init__(self, pause: float = 0.0) -> None:
        self.pause = pause
        self.ran: list[Work] = []

    def results(self, groups: Sequence[Group], progress: Progress) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        for index, group in enumerate(groups):
            time.sleep(self.pause)
            self.ran += group.cells
            yield index, [{"status": "done", "reason": "", "capacity": int(c.hash[:6], 16)} for c in group.cells]


# -- cells


def test_cells_are_typed_and_hashed() -> None:
    cell = Cell(2, 3, 2, 5)
    assert Cell.from_dict(cell.to_dict()) == cell
    assert cell.hash == Cell.from_dict(dict(reversed(cell.to_dict().items()))).hash
    assert cell.hash != cell.replace(seed=1).hash and cell.group == cell.replace(seed=1).group
    assert cell.group != cell.replace(n_heads=3).group
    assert Cell.from_dict({**cell.to_dict(), "recall": 1}).hash == cell.hash


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_head": 2}, "n_heads"),
        ({"n_heads": 0}, "n_heads"),
        ({"n_heads": True}, "whole number"),
        ({"n_heads": 1.5}, "whole number"),
        ({"n_heads": "2"}, "whole number"),
        ({"recall": 0.0}, "recall"),
        ({"recall": float("nan")}, "finite"),
        ({"recipe": "bset"}, "best"),
        ({"by": "argmax"}, "argmax_fit"),
        ({"by": "kajitsuka2025_next_token"}, "way to measure"),
        ({"family": "transfomer"}, "transformer"),
        ({"task": "capasity"}, "capacity"),
        ({"seed": -1}, "seed"),
        ({"n_facts": 5}, "recall"),
        ({"task": "recall", "n_facts": 26}, "25 contexts"),
        ({"steps": 0}, "steps"),
        ({"dtype": "float31"}, "float32"),
        ({"sharing": 2.0}, "sharing"),
        ({"tolerance": 1.0}, "tolerance"),
    ],
)
def test_bad_cells(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RoteError, match=words):
        Cell.from_dict({**Cell(2, 3, 2, 5).to_dict(), **changes})


def test_missing_keys_are_named() -> None:
    with pytest.raises(RoteError, match="n_heads, vocab"):
        Cell.from_dict({"d_model": 3, "context": 2})


# -- the file


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = ", "no valid TOML"),
        ("nam = 'x'", "top-level"),
        ("n_heads = 3", "base"),
        ("[bse]\nx = 1", "top-level"),
        ("[base]\nn_head = 3", "n_heads"),
        (GRID.replace("[1, 2, 3]", "[]"), "no values"),
        (GRID.replace("[1, 2, 3]", "[1, 1]"), "twice"),
        (GRID.replace("[1, 2, 3]", "3"), "list"),
        (GRID.replace("[1, 2, 3]", '["a"]'), "whole number"),
        (GRID.replace("vocab = 6", "vocab = 6\nn_heads = 2"), "both"),
        (GRID.replace("seeds = 3", "seeds = 0"), "seeds"),
        (GRID.replace("vocab = 6", "vocab = 6\nseed = 0"), "not both"),
        (GRID.replace("seeds = 3", "seeds = 1000000"), "more than"),
        ("grid = 3", "table"),
        ("", "n_heads"),
        ("name = 3", "text"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, words: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(RoteError, match=words) as caught:
        read_sweep(file)
    assert str(file) in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        read_sweep(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(DataError, match="UTF-8"):
        read_sweep(tmp_path / "latin.toml")
    with pytest.raises(DataError, match="is a directory"):
        read_sweep(tmp_path)
    with pytest.raises(UsageError, match="quick"):
        read_sweep(written(tmp_path, GRID.split("[quick]", 1)[0]), quick=True)


def test_grids_expand_and_shrink(tmp_path: Path) -> None:
    assert len(read_sweep(written(tmp_path)).cells) == 9
    assert len(read_sweep(written(tmp_path), quick=True).cells) == 1
    union = GRID.replace(
        "[grid]\nn_heads = [1, 2, 3]", "[[grid]]\nn_heads = [1]\n[[grid]]\nn_heads = [2]\nrecall = [0.5, 1.0]"
    )
    assert len(read_sweep(written(tmp_path, union)).cells) == 9


# -- running and resuming


def test_only_missing_cells_run(tmp_path: Path) -> None:
    sweep = read_sweep(written(tmp_path))
    with Journal(tmp_path / "r.db") as journal:
        quick = Stub()
        run_sweep(read_sweep(written(tmp_path), quick=True), journal, quick)
        assert len(quick.ran) == 1
        rest = Stub()
        made = run_sweep(sweep, journal, rest)
        assert (len(rest.ran), made.known, made.done) == (8, 1, 8)
        again = Stub()
        assert run_sweep(sweep, journal, again).known == 9 and not again.ran


def test_a_failed_cell_is_a_row_and_can_be_retried(tmp_path: Path) -> None:
    # dana2025_cor1 holds H d + d = 6, 9, 12 facts: with 8, one head is not enough.
    file = written(tmp_path, GRID.replace("n_facts = 6", "n_facts = 8"))
    db = tmp_path / "r.db"
    assert run(["sweep", str(file), "--db", str(db)]) == 1
    found = rows(db)
    assert [row["status"] for row in found if row["n_heads"] == 1] == ["failed"] * 3
    assert all("holds 6 facts" in row["reason"] for row in found if row["n_heads"] == 1)
    assert all(row["share"] == 1.0 for row in found if row["n_heads"] > 1)
    with Journal(db) as journal:
        assert run_sweep(read_sweep(file), journal, Stub()).known == 9
        again = Stub()
        made = run_sweep(read_sweep(file), journal, again, retry=True)
        assert len(again.ran) == 3 and made.done == 3
        # What is done stays as it is.
        before = rows(db)
        journal.put(
            "other", [Cell.from_dict({k: before[0][k] for k in Cell(1, 1, 1, 2).to_dict()})], [{"status": "failed"}]
        )
    assert rows(db) == before
    assert run(["sweep", str(file), "--db", str(tmp_path / "f.db"), "--fail-fast"]) == 2


def test_divergence_is_a_row_with_its_reason(tmp_path: Path) -> None:
    text = GRID.replace('by = "dana2025_cor1"', 'recipe = "dana2025_full"\nrate = 1e30\nsteps = 20')
    db = tmp_path / "r.db"
    assert run(["sweep", str(written(tmp_path, text)), "--db", str(db), "--quick"]) == 1
    (row,) = rows(db)
    assert row["status"] == "diverged" and "step" in row["reason"]


def test_processes_beside_each_other_find_the_same(tmp_path: Path) -> None:
    sweep = read_sweep(written(tmp_path))
    for name, jobs in (("one", 1), ("two", 2)):
        with Journal(tmp_path / f"{name}.db") as journal:
            run_sweep(sweep, journal, Local(jobs))
    assert rows(tmp_path / "one.db") == rows(tmp_path / "two.db")


def test_killed_twenty_times(tmp_path: Path) -> None:
    """kill -9 at random moments: every row once, the same as undisturbed, and a sound file."""
    text = GRID.replace("[1, 2, 3]", str(list(range(1, 61))))
    sweep = read_sweep(written(tmp_path, text))
    calm, wild = tmp_path / "calm.db", tmp_path / "wild.db"
    with Journal(calm) as journal:
        run_sweep(sweep, journal, Stub())
    rng = random.Random(0)
    kills = 0
    counts = []
    while kills < 20:
        child = os.fork()
        if child == 0:
            try:
                with Journal(wild) as journal:
                    run_sweep(sweep, journal, Stub(0.02))
            finally:
                os._exit(0)
        time.sleep(rng.uniform(0.0, 0.08))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        kills += os.WIFSIGNALED(status)
        if wild.exists() and wild.stat().st_size:
            with sqlite3.connect(wild) as raw:
                assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                tables = raw.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'cells'").fetchone()[0]
                counts.append(raw.execute("SELECT count(*) FROM cells").fetchone()[0] if tables else 0)
            raw.close()
    assert counts == sorted(counts), "a row was lost"
    assert all(count % 3 == 0 for count in counts), "half a group was written"
    with Journal(wild) as journal:
        run_sweep(sweep, journal, Stub())
    assert rows(wild) == rows(calm)


def test_interrupted_keeps_what_is_done(tmp_path: Path) -> None:
    class Interrupted(Stub):
        def results(self, groups: Sequence[Group], progress: Progress) -> Iterator[tuple[int, list[dict[str, Any]]]]:
            yield next(super().results(groups, progress))
            raise KeyboardInterrupt

    sweep = read_sweep(written(tmp_path))
    db = tmp_path / "r.db"
    with pytest.raises(KeyboardInterrupt), Journal(db) as journal:
        run_sweep(sweep, journal, Interrupted())
    assert len(rows(db)) == 3


# -- hostile files


def test_files_that_are_no_journal(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all, " * 100)
    with pytest.raises(DataError, match="no SQLite file"):
        Journal(tmp_path / "text.db")
    with sqlite3.connect(tmp_path / "other.db") as raw:
        raw.execute("CREATE TABLE birds (name TEXT)")
    raw.close()
    with pytest.raises(DataError, match="another program"):
        Journal(tmp_path / "other.db")
    Journal(tmp_path / "old.db").close()
    with sqlite3.connect(tmp_path / "old.db") as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(DataError, match="another version"):
        Journal(tmp_path / "old.db", write=False)
    with pytest.raises(DataError, match="no file"):
        Journal(tmp_path / "none.db", write=False)
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "empty.db").touch()
    with pytest.raises(DataError, match="empty"):
        Journal(tmp_path / "empty.db", write=False)
    with pytest.raises(OutputError, match="directory"):
        Journal(tmp_path)
    with pytest.raises(OutputError, match="does not exist"):
        Journal(tmp_path / "no" / "r.db")


def test_a_truncated_journal_is_refused(tmp_path: Path) -> None:
    db = tmp_path / "r.db"
    with Journal(db) as journal:
        run_sweep(read_sweep(written(tmp_path)), journal, Stub())
    content = db.read_bytes()
    db.write_bytes(content[: len(content) // 2])
    with pytest.raises(RoteError, match=r"damaged|kept"):
        rows(db)


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    db = tmp_path / "r.db"
    sweep = read_sweep(written(tmp_path, GRID.replace("[1, 2, 3]", str(list(range(1, 200))))))
    with Journal(db) as journal:
        pages = journal.connection.execute("PRAGMA page_count").fetchone()[0]
        journal.connection.execute(f"PRAGMA max_page_count = {pages + 4}")
        with pytest.raises(OutputError, match="disk is full"):
            run_sweep(sweep, journal, Stub())
    kept = len(rows(db))
    assert 0 < kept < len(sweep.cells) and kept % 3 == 0
    with Journal(db) as journal:
        run_sweep(sweep, journal, Stub())
    assert len(rows(db)) == len(sweep.cells)


def test_two_sweeps_into_one_file(tmp_path: Path) -> None:
    db = tmp_path / "r.db"
    sweep = read_sweep(written(tmp_path))
    with Journal(db) as one, Journal(db) as two:
        run_sweep(sweep, one, Stub())
        half = Sweep("other", sweep.cells[:4])
        assert run_sweep(half, two, Stub()).known == 4
    assert len(rows(db)) == 9


def test_results_only_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = tmp_path / "r.db"
    with Journal(db) as journal:
        run_sweep(read_sweep(written(tmp_path)), journal, Stub())
    db.chmod(stat.S_IRUSR)
    before = db.read_bytes()
    assert run(["results", str(db), "--where", "n_heads>=2 and seed=0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["n_heads"], row["seed"]) for row in found] == [(2, 0), (3, 0)]
    assert found[0]["capacity"] == int(found[0]["hash"][:6], 16)
    assert run(["results", str(db), "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 10
    assert run(["results", str(db), "--format", "parquet", "-o", str(tmp_path / "r.parquet")]) == 0
    import polars as pl

    assert pl.read_parquet(tmp_path / "r.parquet").height == 9
    assert run(["results", str(db)]) == 0
    assert "9 rows" in capsys.readouterr().out
    for words in (
        ["--format", "parquet"],
        ["--format", "xml"],
        ["--where", "n_head=1"],
        ["--where", "; DROP TABLE cells"],
    ):
        assert run(["results", str(db), *words]) == 2
        assert capsys.readouterr().err.startswith("rote: ")
    assert db.read_bytes() == before
    shutil.copy(db, tmp_path / "copy.db")


def test_sweeps_and_results_from_python(tmp_path: Path) -> None:
    base = {"d_model": 4, "context": 2, "vocab": 12, "by": "dana2025_cor1"}
    grid = {"name": "heads", "seeds": 2, "base": base, "grid": {"n_heads": [1, 3]}, "quick": {"n_heads": [1]}}
    db = tmp_path / "r.db"
    first = sweep(grid, db, quick=True)
    assert (first.cells, first.done, first.not_done) == (2, 2, 0)
    whole = sweep(grid, db)
    assert repr(whole) == f"Swept(heads: 4 cells, 2 known before, 2 done now, 0 failed; {db})"
    assert "4 cells, 2 known before" in whole._repr_html_()
    assert whole.to_dict()["db"] == str(db) and whole.to_dict()["sweep"] == "heads"
    held = whole.results(["seed=0"])
    assert repr(held) == "Results(r.db: 2 rows, 2 done)"
    assert [row["capacity"] for row in held] == [8, 16] and held[1]["n_heads"] == 3
    assert held.frame().height == len(held) == 2 and len(held.where("n_heads>=2")) == 1
    assert "<table>" in held._repr_html_() and results(db).export("csv").count(b"\n") == 5
    assert "No rows." in held.where("n_heads>=9")._repr_html_()
    with pytest.raises(UnknownName, match="csv"):
        held.export("xml")
    with pytest.raises(UsageError, match="Ray cluster"):
        sweep(grid, db, address="a:1")
    with pytest.raises(UnknownName, match="local"):
        sweep(grid, db, on="locl")


def test_conditions_never_become_sql() -> None:
    held = [
        {"n_heads": 1, "recipe": "best", "gated": False, "d_head": None},
        {"n_heads": 2, "recipe": "x' OR '1'='1", "gated": True, "d_head": 3},
    ]
    assert len(select(held, ["recipe=best"])) == 1
    assert len(select(held, ["recipe=x' OR '1'='1"])) == 1
    assert select(held, ["recipe=1 OR 1=1"]) == []
    assert len(select(held, ["gated=true"])) == 1
    assert len(select(held, ["d_head=none"])) == 1 and len(select(held, ["d_head!=none"])) == 1
    assert len(select(held, ["n_heads != 1", "n_heads < 3"])) == 1
    assert select(held, ["n_heads<abc"]) == []
    with pytest.raises(UnknownName, match="n_heads"):
        select(held, ["n_haeds=1"])
    for text in ("", "n_heads", "1=1", "n_heads=1;", "(n_heads)=1"):
        if text == "n_heads=1;":
            assert select(held, [text]) == []
            continue
        with pytest.raises(UsageError):
            select(held, [text])


def test_a_disk_without_room_is_full_whatever_sqlite_calls_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no room for the log beside the file, SQLite only speaks of a disk I/O error."""
    import shutil
    import sqlite3

    with Journal(tmp_path / "r.db") as journal:
        said = str(journal._refusal(sqlite3.OperationalError("disk I/O error")))
        assert "disk I/O error" in said and "full" not in said
        usage = shutil.disk_usage(tmp_path)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=8192))
        said = str(journal._refusal(sqlite3.OperationalError("disk I/O error")))
    assert said == (
        f"cannot write {tmp_path / 'r.db'}: the disk is full. Finished groups are kept; free some space and run again."
    )


@pytest.mark.parametrize("value", ["[]", "3", "[" * 90_000, '{"rows": 3}', '{"rows": [1]}', '{"a": 1, "a": 2}', "{"])
def test_a_row_that_holds_no_record_is_damaged(tmp_path: Path, value: str) -> None:
    path = tmp_path / "r.db"
    with Journal(path) as journal:
        cell = Cell(n_heads=1, d_model=4, context=2, vocab=12)
        journal.put("s", [cell], [{"status": "done"}])
        journal.connection.execute("UPDATE cells SET result = ?", (value,))
    with Journal(path, write=False) as journal, pytest.raises(DataError, match="is damaged"):
        list(journal.rows())
