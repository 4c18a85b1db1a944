"""The page as text: what is in it, that it is escaped and self-contained, and what is refused."""

from __future__ import annotations

import base64
import itertools
import json
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from results_twin import HOSTILE, cells, entry, folder, journal

from rote.cli.main import run
from rote.errors import DataError, RoteError, UsageError
from rote.lab.report import report
from rote.lab.report.to_toml import sweep_toml, toml
from rote.measurement import Cell, Journal, read_sweep


class _Reader(HTMLParser):
    """Tags, attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img", "path", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("path",):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.words += data


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("results")
    folder(place / "out")
    journal(place / "built.db")
    report([place / "out", place / "built.db"], place / "report.html", title=f"All {HOSTILE}")
    return place / "report.html"


@pytest.fixture(scope="module")
def read(page: Path) -> _Reader:
    return _Reader(page.read_text(encoding="utf-8"))


def test_claims_have_verdicts_and_are_counted(read: _Reader) -> None:
    assert "3 claims put to the test: 1 holds, 1 does not hold, 1 undecided." in read.words
    for text in ("The claim does not hold: the exponent is 0.5", "Deviations", "rote reproduce dana2025/exp1 --quick"):
        assert text in read.words
    assert "Dana, Pydi, Chevaleyre 2025" in read.words
    assert "torch 2.6" in read.words and "12 s" in read.words


def test_sweeps_have_laws_bounds_and_the_way_to_run_them_again(read: _Reader) -> None:
    assert "29 cells done, 1 failed. The most facts held: " in read.words
    assert "linear (chosen)" in read.words
    assert "lower: dana2025_cor1" in read.words
    assert "not enough memory" in read.words
    assert "rote sweep built.toml --db built.db" in read.words


def test_nothing_is_fetched_and_nothing_is_run_from_a_text(page: Path, read: _Reader) -> None:
    text = page.read_text(encoding="utf-8")
    assert "harmed" in text
    assert not any("onerror" in attrs for _, attrs in read.tags)
    assert [attrs.get("id") for tag, attrs in read.tags if tag == "script"] == ["figures", "library", None]
    for _, attrs in read.tags:
        for name in ("src", "href"):
            assert (attrs.get(name) or "#").startswith(("#", "data:"))
    assert HOSTILE in read.words
    assert not read.open


def test_every_figure_has_words_numbers_and_files(read: _Reader) -> None:
    figures = [attrs for tag, attrs in read.tags if tag == "figure"]
    images = [attrs for tag, attrs in read.tags if tag == "img"]
    assert len(figures) == len(images) == 4
    assert all((attrs.get("alt") or "").strip() for attrs in images)
    plots = [attrs for tag, attrs in read.tags if attrs.get("class") == "plot"]
    assert len(plots) == 2 + 1 + 3 + 1
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in plots)
    names = [attrs["download"] or "" for tag, attrs in read.tags if tag == "a" and "download" in attrs]
    for ending in ("png", "svg", "pdf"):
        assert sum(name.endswith(f".{ending}") for name in names) == 4
    pdf = next(attrs for _, attrs in read.tags if (attrs.get("download") or "").endswith(".pdf"))
    assert base64.b64decode((pdf["href"] or "").split(",")[1]).startswith(b"%PDF")


def test_tables_carry_their_csv(read: _Reader) -> None:
    link = next(attrs for _, attrs in read.tags if attrs.get("download") == "dana2025-exp1.csv")
    text = base64.b64decode((link["href"] or "").split(",")[1]).decode()
    assert text.startswith("n_heads,d_model") and text.count("\n") == 30
    assert any(attrs.get("download") == "built.csv" for _, attrs in read.tags)


def test_the_same_results_give_the_same_page(tmp_path: Path) -> None:
    journal(tmp_path / "a.db")
    first = report([tmp_path / "a.db"], tmp_path / "one.html")
    second = report([tmp_path / "a.db"], tmp_path / "two.html")
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.n_bytes == first.path.stat().st_size


def test_figures_that_were_drawn_are_taken_as_they_are(tmp_path: Path) -> None:
    own = entry(tmp_path, "dana2025/exp1", "holds")
    report([own], tmp_path / "report.html")
    assert base64.b64encode(b"%PDF drawn before").decode() in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_study_is_a_table(tmp_path: Path) -> None:
    config = {"study": "noise", "level": 0.1, "seed": 0}

    class _Study:
        seed, hash, group, short = 0, "ab" * 32, "g", "(noise)"

        def to_dict(self) -> dict[str, Any]:
            return config

    with Journal(tmp_path / "s.db") as held:
        rows = [{"bits": 8, "kept": 0.5}, {"bits": 16, "kept": 1.0}]
        work: Any = _Study()
        held.put("noise", [work], [{"status": "done", "rows": rows, "duration": 1.0}])
    report([tmp_path / "s.db"], tmp_path / "report.html")
    words = _Reader((tmp_path / "report.html").read_text(encoding="utf-8")).words
    assert "Study noise (2 rows)" in words and "1 cells done" in words


def test_shapes_have_panels_of_their_own(tmp_path: Path) -> None:
    with Journal(tmp_path / "s.db") as held:
        for d_model, heads, seed in itertools.product((3, 5), (1, 2, 3, 4), (0, 1)):
            cell = Cell(n_heads=heads, d_model=d_model, context=2, vocab=12, task="recall", seed=seed, steps=9)
            share = min(1.0, 0.05 * d_model * heads + 0.01 * seed)
            # Training may stop early: the steps that were taken differ, those that were asked for do not.
            found = {"status": "done", "share": share, "published": share, "n_facts": 144, "steps": 9 - heads}
            held.put("shares", [cell], [found])
    made = report([tmp_path / "s.db"], tmp_path / "report.html")
    pictures = made.sections[0].pictures
    assert [picture.name for picture in pictures] == ["share-n_heads", "share-d_model"]
    assert [panel.title for panel in pictures[0].figure.panels] == ["d_model 3", "d_model 5"]
    assert any(series.kind == "fit" for series in pictures[0].figure.panels[0].series)
    assert len(pictures[1].figure.panels) == 4


def test_words_of_panels_and_series_say_what_is_needed_and_no_more(tmp_path: Path) -> None:
    with Journal(tmp_path / "s.db") as held:
        for d_model, heads, by in itertools.product((16, 4), (1, 2), ("argmax_fit", "dana2025_cor1")):
            dtype = "float64" if by == "argmax_fit" else "float32"
            cell = Cell(n_heads=heads, d_model=d_model, context=2, vocab=30, by=by, dtype=dtype)
            held.put("two", [cell], [{"status": "done", "capacity": 4 * heads * d_model}])
    made = report([tmp_path / "s.db"], tmp_path / "report.html")
    panels = made.sections[0].pictures[0].figure.panels
    assert [panel.title for panel in panels] == ["d_model 4", "d_model 16"]
    names = [series.name for series in panels[0].series if series.kind == "points"]
    assert names == ["built by argmax_fit", "built by dana2025_cor1"]


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"verdict": "maybe"}, "no verdict 'maybe'"),
        ({"figures": [{"name": "../x"}]}, "plain file name"),
        ({"figures": [{"name": "gone"}]}, "no file"),
        ({"figures": "figure"}, "must be a list"),
        ({"config": [1]}, "must be an object"),
    ],
)
def test_damaged_entries_are_refused_by_name(tmp_path: Path, config: dict[str, Any], says: str) -> None:
    own = entry(tmp_path, "dana2025/exp1", **{"verdict": "holds", **config})
    with pytest.raises(RoteError, match=says):
        report([own], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_damaged_files_are_refused_by_name(tmp_path: Path) -> None:
    own = entry(tmp_path, "dana2025/exp1", "holds")
    (own / "rows.csv").write_text("a,b\n1\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2: 1 cells under 2 columns"):
        report([own], tmp_path / "report.html")
    for text in ("{", "[]"):
        (own / "entry.json").write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=r"entry\.json"):
            report([own], tmp_path / "report.html")


def test_what_is_no_source_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "note.txt").write_text("no database, but long enough to be one\n" * 40, encoding="utf-8")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="nothing to report"):
        report([], tmp_path / "r.html")
    with pytest.raises(UsageError, match=r"\.html file"):
        report([tmp_path], tmp_path / "r.pdf")
    for source in ("gone", "empty", "note.txt"):
        assert run(["report", str(tmp_path / source), "-o", str(tmp_path / "r.html")]) == 2
        said = capsys.readouterr().err
        assert said.startswith("rote: ") and said.count("\n") == 1
    assert not (tmp_path / "r.html").exists()


def test_the_command_line_answers_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    journal(tmp_path / "built.db", failed=False)
    assert run(["report", "built.db", "-o", "r.html", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["page"] == "r.html" and made["sections"][0]["figures"] == ["capacity-n_heads"]
    # Without a source it is the folder that `rote reproduce` writes to.
    entry(tmp_path / "reproduced", "dana2025/exp1", "holds")
    assert run(["report"]) == 0
    assert re.match(r"report\.html: 1 section, 1 figure, [\d.]+ MB", capsys.readouterr().out)
    page = report("built.db", "other.html")
    assert repr(page).startswith("Report(other.html: 1 section, 1 figure, ") and "Sweep built" in page._repr_html_()


_ODD = st.lists(
    st.builds(
        Cell,
        n_heads=st.integers(1, 4),
        d_model=st.integers(2, 4),
        context=st.just(2),
        vocab=st.just(9),
        d_head=st.sampled_from([None, 2, 3]),
        by=st.sampled_from(["train", "argmax_fit"]),
        steps=st.sampled_from([None, 5]),
        seed=st.integers(0, 2),
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda cell: cell.hash,
)


@settings(max_examples=60, deadline=None)
@given(held=_ODD)
def test_the_file_of_a_sweep_has_exactly_its_cells(held: list[Cell], tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("again") / "again.toml"
    file.write_text(sweep_toml("again", [cell.to_dict() for cell in held]), encoding="utf-8")
    assert {cell.hash for cell in read_sweep(file).cells} == {cell.hash for cell in held}


def test_a_full_grid_is_one_grid() -> None:
    record = tomllib.loads(sweep_toml("built", [cell.to_dict() for cell in cells()]))
    assert record == {
        "name": "built",
        "seeds": 3,
        "base": {"d_model": 4, "context": 2, "vocab": 30},
        "grid": {"n_heads": [1, 2, 3, 4, 6], "by": ["argmax_fit", "dana2025_cor1"]},
    }


def test_toml_comes_back_the_same() -> None:
    record = {
        "title": 'a "quoted" \\ text\nin two lines',
        "n": 3,
        "rate": 0.25,
        "yes": True,
        "list": [1, 2],
        "columns": {"odd key": "x", "plain": "y"},
        "sweep": [{"base": {"a": 1}, "grid": [{"b": [1]}, {"b": [2]}]}, {"seeds": 2}],
    }
    assert tomllib.loads(toml(record)) == record
