"""Entries from files to figures: real cells, small ones; resuming; refusals; the entries that ship."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from rote.cli.main import run as call_rote
from rote.errors import DataError, RoteError, UnknownName, UsageError
from rote.lab.entries import (
    Reproduced,
    catalogue,
    entries,
    estimate,
    find_entries,
    read_entry,
    reproduce,
    run_entries,
    take_over,
)
from rote.lab.entries.cells import read_cells, write_cells
from rote.lab.entries.cost import cell_seconds
from rote.lab.entries.figure import make_figure
from rote.lab.entries.published import known_tables, published_rows
from rote.lab.entries.run import write_entries
from rote.lab.entries.sentences import fill
from rote.lab.entries.table import COLUMNS, Table
from rote.lab.entries.writing import named, own_grid
from rote.measurement import Journal
from rote.measurement.executors import Local
from rote.plot import read_figure

SMALL = """
title = "Heads"
source = "nobody"
paper = "none"
question = "How many facts?"
claim = "Capacity is linear in H."
value = "capacity"
deviations = ["slope {slope:.1f}"]

[[sweep]]
seeds = 2
[sweep.base]
d_model = 4
context = 2
vocab = 30
by = "dana2025_cor1"
[sweep.grid]
n_heads = [1, 2, 3, 4, 5]
[sweep.quick]
seeds = 1

[[study]]
kind = "head_saturation"
[study.base]
n_heads = 2
n_facts = 20
d_model = 8
context = 4
vocab = 5
steps = 20

[[published]]
file = "points.csv"
columns = { cap = "capacity", H = "n_heads" }
constants = { d_model = 4, d_head = 4, vocab = 30 }
ours = ["source=build:dana2025_cor1"]

[[figure]]
caption = "Slope {slope:.2f}, and {nothing:.3f}."
[[figure.panel]]
x = "n_heads"
y = "capacity"
fit = "linear"
bounds = ["dana2025_cor1", "counting"]
reference = [{ name = "ten", y = 10 }]

[[test]]
kind = "law"
x = "n_heads"
y = "capacity"
where = ["source=build:dana2025_cor1"]
law = "linear"

[[test]]
name = "match"
kind = "close"
y = "capacity"
tolerance = 0.5
decides = false

[words]
holds = "A head holds {slope:.2f} facts."
fails = "No."
answer = { holds = "{match_within} of {match_points} points are met.", fails = "never" }
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "points.csv").write_text("H,cap\n1,8\n2,12\n3,17\n", encoding="utf-8")
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def call(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = call_rote(list(args))
    out, err = capsys.readouterr()
    return code, out, err


def test_the_same_from_python(small: Path, tmp_path: Path) -> None:
    seen: list[Reproduced] = []
    (entry,) = reproduce(str(small), tmp_path / "out", jobs=1, done=seen.append)
    assert seen == [entry] and (entry.verdict, entry.record["mode"]) == ("undecided", "quick")
    assert repr(entry) == f"Reproduced(small, quick: undecided; {tmp_path / 'out' / 'small'})"
    assert [figure.title for figure in entry.figures()] == [entry.entry.title]
    assert "one seed a point has no spread" in entry._repr_html_() and "<img" in entry._repr_html_()
    listed = catalogue([str(small), "dana2025/exp1"])
    assert repr(listed) == "Catalogue(small, dana2025/exp1)" and "dana2025/exp1" in listed._repr_html_()
    with pytest.raises(UsageError, match="run on ray"):
        reproduce(str(small), tmp_path / "out", address="a:1")


def test_an_entry_from_file_to_figure(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    code, text, err = call(capsys, "reproduce", str(small), "--full", "--jobs", "1", "-o", str(out))
    assert code == 0, err
    assert text.startswith("1 entry, 11 cells, 0 known before; the rest takes about")
    assert "small: holds. A head holds 4.00 facts." in text
    record = json.loads((out / "small" / "entry.json").read_text(encoding="utf-8"))
    assert record["verdict"] == "holds"
    assert record["answer"] == "2 of 3 points are met."
    assert record["deviations"] == ["slope 4.0"]
    assert record["mode"] == "full" and record["cells"] == {"done": 11, "failed": 0, "missing": 0}
    assert record["numbers"]["match_worst"] == -1.0
    assert record["missing"] == []
    assert [row["n_heads"] for row in record["published"]] == [1, 2, 3]
    assert [row["difference"] for row in record["published"]] == [0.0, 0.0, -1.0]
    assert record["published"][2]["ours"] == record["published"][2]["ours_low"] == 16.0
    assert {row["ours_seeds"] for row in record["published"]} == {2}
    assert record["figures"][0]["caption"] == "Slope 4.00, and –."
    assert set(record["versions"]) >= {"rote", "torch", "python"}
    assert sorted(path.name for path in (out / "small").iterdir()) == [
        "cells.csv",
        "entry.json",
        "figure.json",
        "figure.pdf",
        "figure.png",
        "figure.svg",
        "rows.csv",
    ]
    with (out / "small" / "rows.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert tuple(rows[0])[: len(COLUMNS)] == COLUMNS
    built = [row for row in rows if row["source"] == "build:dana2025_cor1"]
    assert [(row["n_heads"], row["capacity"], row["seeds"]) for row in built] == [
        (str(h), str(4 * h + 4), "2") for h in range(1, 6)
    ]
    assert sum(row["source"] == "published" for row in rows) == 3
    assert sum(row["source"] == "study:head_saturation" for row in rows) == 6
    (panel,) = read_figure(out / "small" / "figure.json").panels
    kinds = {item.name: item.kind for item in panel.series}
    assert kinds == {
        "build:dana2025_cor1": "points",
        "build:dana2025_cor1: linear fit": "fit",
        "published": "published",
        "dana2025_cor1": "bound_lower",
        "counting": "bound_upper",
        "ten": "reference",
    }

    # Everything is known now: nothing is run again, and the files are the same.
    before = (out / "small" / "rows.csv").read_bytes()
    code, text, _ = call(capsys, "reproduce", str(small), "--full", "-o", str(out), "--jobs", "1", "--json")
    answer = json.loads(text)
    assert code == 0 and answer["mode"] == "full" and answer["estimated_seconds"] == 0
    assert answer["entries"][0]["sentence"] == "A head holds 4.00 facts."
    assert (out / "small" / "rows.csv").read_bytes() == before

    # Nor on another machine that has the cells as text: rows, cells and their versions come out the same.
    other = tmp_path / "other"
    code, text, _ = call(capsys, "reproduce", str(small), "--full", "-o", str(other), "--from", str(out), "--jobs", "1")
    assert code == 0 and text.startswith("1 entry, 11 cells, 11 known before")
    for name in ("rows.csv", "cells.csv", "figure.json"):
        assert (other / "small" / name).read_bytes() == (out / "small" / name).read_bytes(), name


def test_rows_without_their_cells(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of which no cell was kept are judged again to the same numbers, alone and beside new cells."""
    entry, out, kept = read_entry(small), tmp_path / "out", tmp_path / "kept"
    (made,) = run_entries([entry], out, Local(), quick=False)
    (kept / "small").mkdir(parents=True)
    for name in ("rows.csv", "entry.json"):
        (kept / "small" / name).write_bytes((out / "small" / name).read_bytes())
    (tmp_path / "new").mkdir()
    Journal(tmp_path / "new" / "journal.db").close()
    again = ["reproduce", str(small), "--full", "--no-run", "-o", str(tmp_path / "new")]
    assert call(capsys, *again)[0] == 2
    assert call(capsys, *again, "--from", str(kept))[0] == 0
    record = json.loads((tmp_path / "new" / "small" / "entry.json").read_text(encoding="utf-8"))
    for name in ("numbers", "published", "verdict", "sentence", "cells", "missing", "seconds"):
        assert record[name] == made.record[name], name

    # Half of the seeds in the journal say less than the row does; the row stands, and cells are counted once.
    cells = (out / "small" / "cells.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    few = [line for line in cells if line.startswith(("seed,", "0,"))]
    (kept / "small" / "cells.csv").write_text("".join(few), encoding="utf-8")
    assert call(capsys, *again, "--from", str(kept))[0] == 0
    record = json.loads((tmp_path / "new" / "small" / "entry.json").read_text(encoding="utf-8"))
    assert record["numbers"] == made.record["numbers"] and record["cells"] == made.record["cells"]
    # A row that was never kept comes from the journal, and what neither has is named.
    lines = (kept / "small" / "rows.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    lost = [line for line in lines if not line.startswith("1,4,4,30,")]
    assert len(lost) == len(lines) - 2  # ours, and the published one
    (kept / "small" / "rows.csv").write_text("".join(lost), encoding="utf-8")
    assert call(capsys, *again, "--from", str(kept))[0] == 0
    record = json.loads((tmp_path / "new" / "small" / "entry.json").read_text(encoding="utf-8"))
    assert record["cells"] == {"done": 10, "failed": 0, "missing": 1}
    assert record["missing"] == ["dana2025_cor1, 1 cells: d_model 4; n_heads 1; d_mlp 0; context 2"]


def test_cells_as_text(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, entry = tmp_path / "out", read_entry(small)
    run_entries([entry], out, Local(), quick=True)
    path = out / "small" / "cells.csv"
    text = path.read_text(encoding="utf-8")
    assert text.splitlines()[0] == "seed,setting,result,status,reason,seconds,version,finished"
    with Journal(out / "journal.db", write=False) as journal:
        kept = {line["hash"]: line for line in journal.lines()}
    read = {cell.hash: result for cell, result in read_cells(path)}
    assert read.keys() == kept.keys() and len(read) == 6
    for key, result in read.items():
        assert result["version"] == kept[key]["version"] and result["finished"] == kept[key]["finished"]
        assert kept[key]["result"].items() <= result.items()
    # A run that begins with a part of them runs the others only.
    part = tmp_path / "part" / "small"
    part.mkdir(parents=True)
    (part / "cells.csv").write_text("".join(text.splitlines(keepends=True)[:4]), encoding="utf-8")
    assert take_over([entry], tmp_path / "new", part.parent, quick=True) == 3
    assert take_over([entry], tmp_path / "new", part.parent, quick=True) == 0
    assert estimate([entry], tmp_path / "new", quick=True)[:2] == (6, 3)
    # Large files are compressed, and what is not what it says is refused by its line.
    monkeypatch.setattr("rote.lab.entries.cells._LARGEST", 100)
    with Journal(out / "journal.db", write=False) as journal:
        packed = write_cells(out / "small", journal, set(kept))
    assert packed is not None and packed.name == "cells.csv.gz" and not path.exists()
    assert {cell.hash for cell, _ in read_cells(packed)} == set(kept)
    for wrong, told in (
        (text.replace("n_heads", "n_head"), "line 2: .*n_head"),
        (text.replace('"{""', '"{{""'), "line 2"),
        (text.replace("setting", "settings", 1), "must have the columns"),
    ):
        path.write_text(wrong, encoding="utf-8")
        with pytest.raises(DataError, match=told):
            list(read_cells(path))
    (tmp_path / "bad.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="cannot read"):
        list(read_cells(tmp_path / "bad.csv.gz"))
    with pytest.raises(UsageError, match="there is no folder"):
        take_over([entry], tmp_path / "new", tmp_path / "nowhere", quick=True)


def test_quick_is_another_grid_in_the_same_journal(small: Path, tmp_path: Path) -> None:
    entry = read_entry(small)
    assert len(entry.cells(quick=True)) == 6
    assert len(entry.cells(quick=False)) == 11
    assert estimate([entry], tmp_path / "none", quick=True)[:2] == (6, 6)
    (made,) = run_entries([entry], tmp_path / "out", Local(), quick=True)
    assert made.record["cells"]["done"] == 6
    assert estimate([entry], tmp_path / "out", quick=True) == (6, 0, 0)
    assert estimate([entry], tmp_path / "out", quick=False)[:2] == (11, 5)


def test_a_quick_run_of_another_recipe_is_not_judged(small: Path, tmp_path: Path) -> None:
    small.write_text(SMALL.replace("[sweep.quick]\nseeds = 1", "[sweep.quick]\nd_model = 5"), encoding="utf-8")
    entry = read_entry(small)
    assert not own_grid(entry)
    (made,) = run_entries([entry], tmp_path / "out", Local(), quick=True)
    assert made.verdict == "not judged" and "`--full` decides it" in made.record["sentence"]
    assert made.record["answer"] == "" and made.record["figures"]
    (made,) = run_entries([entry], tmp_path / "out", Local(), quick=False)
    assert made.verdict == "holds"


def test_missing_studies_are_named_by_their_kind() -> None:
    (entry,) = find_entries(["kajitsuka2025/seq2seq"])
    assert named(entry.cells(quick=True)[:2])[0].startswith("exact_size, 2 cells: ")


def test_what_was_not_run_is_named(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    code, _, err = call(capsys, "reproduce", str(small), "--no-run", "-o", str(out))
    assert code == 2 and "has no journal.db" in err
    run_entries([read_entry(small)], out, Local(), quick=True)
    code, text, _ = call(capsys, "reproduce", str(small), "--full", "--no-run", "-o", str(out), "--json")
    (record,) = json.loads(text)["entries"]
    assert code == 0 and record["cells"] == {"done": 6, "failed": 0, "missing": 5}
    assert record["missing"] == ["dana2025_cor1, 5 cells: d_model 4; n_heads 1, 2, 3, 4, 5; d_mlp 0; context 2"]
    assert record["verdict"] == "undecided"
    small.write_text(
        SMALL.replace("vocab = 30", "vocab = 31").replace("n_facts = 20", "n_facts = 19"), encoding="utf-8"
    )
    code, _, err = call(capsys, "reproduce", str(small), "--full", "--no-run", "-o", str(out))
    assert code == 2 and "has no cell of these entries" in err


def test_published_figures_are_what_the_papers_have() -> None:
    """A few of them, by hand; and every table has its citation and points of one length."""
    tables = known_tables(find_entries(["dana2025/exp1"])[0].folder)
    assert len(tables["dana2025.exp1"]["points"]) == 77
    assert [10, 10, 1, 0.1298] in tables["dana2025.exp1"]["points"]
    # d = 13 has three points below 0.95, at H = 1, 6, 11: the best line rises by their ends.
    points = {(d, h): value for d, _, h, value in tables["dana2025.exp1"]["points"]}
    assert dict(tables["dana2025.exp4"]["points"])[13] == pytest.approx((points[13, 11] - points[13, 1]) / 10, abs=1e-5)
    assert tables["dana2025.exp3"]["points"][6] == [11, 0.7769]
    assert tables["dana2025.larger_heads"]["points"][4] == [9, 0.4781]
    assert tables["dana2025.deeper"]["points"][4] == [17, 0.4639]
    for key, table in tables.items():
        assert "20" in table["citation"], key
        assert {len(point) for point in table["points"]} == {len(table["columns"])}, key


def test_a_failed_cell_is_said(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = SMALL.replace("steps = 20", "steps = 20\nthreshold = 1.5")
    small.write_text(text, encoding="utf-8")
    code, out, _ = call(capsys, "reproduce", str(small), "--jobs", "1", "-o", str(tmp_path / "out"))
    assert code == 1
    assert "1 cells have no result" in out
    assert "small: undecided. The claim is undecided: linear in 0 of 1 series" in out
    with Journal(tmp_path / "out" / "journal.db", write=False) as journal:
        reasons = [row["reason"] for row in journal.rows() if row["status"] != "done"]
    assert reasons == ["threshold is a weight between 0 and 1, got 1.5."]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "Heads"', 'titel = "Heads"', "did you mean 'title'"),
        ('claim = "Capacity is linear in H."', "", "needs claim"),
        ('kind = "law"', 'kind = "lav"', "did you mean 'law'"),
        ('law = "linear"\n\n', 'lav = "linear"\n\n', "did you mean 'law'"),
        ('kind = "head_saturation"', 'kind = "saturation"', "there is no study 'saturation'"),
        ("n_facts = 20", 'n_facts = "many"', "n_facts must be a whole number"),
        ("n_facts = 20\n", "", "needs n_facts"),
        ('y = "capacity"\nfit', 'z = "capacity"\nfit', "key in"),
        ('bounds = ["dana2025_cor1"', 'bounds = ["dana2025_cor7"', "did you mean"),
        ("seeds = 2", "sedes = 2", "did you mean 'seeds'"),
        ("n_heads = [1, 2, 3, 4, 5]", "n_heads = []", "no values"),
        ('holds = "A', 'holsd = "A', "did you mean 'holds'"),
        ("seeds = 2", 'seeds = 2\nonly = "never"', 'only must be "full" or "quick"'),
        ("[words]", "[words", "no valid TOML"),
        ('file = "points.csv"', 'table = "dana2025.exp1"', "there is no table of published figures"),
        ('file = "points.csv"\n', "", "needs table"),
        ('where = ["source=build:dana2025_cor1"]', 'where = ["source"]', "is no condition"),
    ],
)
def test_mistakes_are_refused_before_anything_runs(small: Path, old: str, new: str, message: str) -> None:
    assert old in SMALL
    small.write_text(SMALL.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(RoteError) as caught:
        read_entry(small)
    assert message in str(caught.value)


def test_bad_calls_are_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for args, message in (
        ((), "name an entry"),
        (("dana2025/exp1", "--quick", "--full"), "not both"),
        (("dana2025/expl",), "did you mean 'dana2025/exp"),
        (("none.toml",), "there is no file none.toml"),
        (("dana2025/exp1", "--address", "a:1"), "run on ray"),
    ):
        code, _, err = call(capsys, "reproduce", *args, "-o", str(tmp_path / "out"))
        assert code == 2 and message in err and err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_published_points_that_are_wrong_are_refused(small: Path, tmp_path: Path) -> None:
    for text, message in (("H\n1\n", "no column 'cap'"), ("H,cap\n1,x\n", "'x' in column cap is no number")):
        (tmp_path / "points.csv").write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=message):
            run_entries([read_entry(small)], tmp_path / "out", Local(), quick=True)


def test_every_entry_that_ships_is_sound(capsys: pytest.CaptureFixture[str]) -> None:
    known = find_entries(["all"])
    assert {entry.key for entry in known} == set(entries())
    assert {f"dana2025/exp{k}" for k in range(1, 7)} <= set(entries())
    for entry in known:
        assert entry.text("source") and entry.tables("figure") and entry.tables("test")
        assert set(entry.record["words"]) >= {"holds", "fails"}
        for quick in (True, False):
            assert entry.cells(quick=quick)
            assert all(cell_seconds(cell) > 0 for cell in entry.cells(quick=quick))
        for table in entry.tables("published"):
            assert published_rows(entry.folder, table)
    code, out, _ = call(capsys, "reproduce", "--list", "--json")
    assert code == 0
    assert len(json.loads(out)["entries"]) == len(known)
    code, out, _ = call(capsys, "reproduce", "--list", "dana2025")
    assert code == 0 and "dana2025/exp6" in out and "mahdavi2024" not in out


def test_quick_of_everything_fits_in_a_quarter_of_an_hour() -> None:
    cells: dict[str, Any] = {cell.hash: cell for entry in find_entries(["all"]) for cell in entry.cells(quick=True)}
    assert sum(cell_seconds(cell) for cell in cells.values()) / 2 < 15 * 60


def test_an_entry_that_cannot_be_judged_keeps_its_cells(small: Path, tmp_path: Path) -> None:
    small.write_text(SMALL.replace('"source=build:dana2025_cor1"', '"sauce=build"'), encoding="utf-8")
    with pytest.raises(UsageError, match="small: there is no column 'sauce'"):
        run_entries([read_entry(small)], tmp_path / "out", Local(), quick=True)
    assert estimate([read_entry(small)], tmp_path / "out", quick=True) == (6, 0, 0)


def test_panels_without_rows_are_left_out() -> None:
    rows = tuple({"source": "train:a", "x": x, "y": 2.0 * x, "vocab": 5} for x in (1.0, 2.0, 3.0))
    panels = [{"x": "x", "y": "y", "where": [f"vocab={vocab}"], "title": str(vocab)} for vocab in (5, 0)]
    figure = make_figure(Table((), rows, "y"), {"panel": panels}, {})
    assert [panel.title for panel in figure.panels] == ["5"] and "0:" not in figure.alt
    empty = make_figure(Table((), rows, "y"), {"panel": panels[1:]}, {})
    assert [panel.title for panel in empty.panels] == ["0"], "a figure has a panel at least"


def test_sentences_never_invent_numbers() -> None:
    assert fill("{a:.2f} and {b:.3f}", {"a": 1.239}) == "1.24 and –"
    assert fill("{a:+.1f}", {"a": None}) == "–"
    with pytest.raises(DataError, match="cannot be filled"):
        fill("{a", {"a": 1})
    with pytest.raises(DataError, match="cannot be filled"):
        fill("{a:.2f}", {"a": "text"})


def test_unknown_studies_and_claims_suggest_the_nearest() -> None:
    from rote.lab.entries.claims import get_claim
    from rote.lab.studies import get_study

    with pytest.raises(UnknownName, match="did you mean 'threshold'"):
        get_claim("treshold")
    with pytest.raises(UnknownName, match="did you mean 'head_saturation'"):
        get_study("head_saturations")


def test_no_entry_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one entry"):
        run_entries([], tmp_path, Local())


def test_a_full_run_of_another_grid_is_not_judged(small: Path, tmp_path: Path) -> None:
    words = '[words]\nnot_judged = "Here it {decided}."'
    text = SMALL.replace("[words]", words, 1) if "[words]" in SMALL else f"{SMALL}\n{words}\n"
    small.write_text(f"judged = false\n{text}", encoding="utf-8")
    entry = read_entry(small)
    (made,) = run_entries([entry], tmp_path / "out", Local(), quick=False)
    assert made.verdict == "not judged"
    assert made.record["sentence"] in ("Here it holds.", "Here it does not hold.", "Here it undecided.")
    (made,) = write_entries([entry], tmp_path / "out", quick=True)
    assert "decides nothing either" in made.record["sentence"]
