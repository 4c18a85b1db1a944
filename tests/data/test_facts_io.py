from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from facts_twin import check_invariants, facts_of, read_facts
from hypothesis import given, settings
from hypothesis import strategies as st

import rote
from rote.data import PAD, FactTable, random_facts, write_facts
from rote.data import tokenise as tokenise_module
from rote.errors import ConflictError, DataError, OutputError, RoteError, UnknownName, UsageError

FORMATS = ["csv", "tsv", "jsonl", "parquet", "csv.gz", "jsonl.gz"]
CITIES = "city,relation,country\nparis,capital-of,france\nrome,capital-of,italy\n"


def put(folder: Path, text: str | bytes, name: str = "facts.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_plain_file(tmp_path: Path) -> None:
    table, report = read_facts(put(tmp_path, CITIES))
    assert facts_of(table) == [(("paris", "capital-of"), "france"), (("rome", "capital-of"), "italy")]
    assert table.vocabulary.tokens == ("capital-of", "france", "italy", "paris", "rome")
    assert table.name == "facts"
    assert report.columns == ("city", "relation")
    assert (report.n_rows, report.n_duplicates, report.target) == (2, 0, ("country",))


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + CITIES,
        CITIES.replace("\n", "\r\n"),
        CITIES.replace("\n", "\r"),
        CITIES.replace("\n", "\n\n"),
        CITIES.replace("paris", '"paris"'),
        CITIES.replace("paris", "  paris\t").replace("city", " city "),
        CITIES.rstrip("\n"),
        CITIES + "paris,capital-of,france\n",
    ],
)
def test_the_same_facts_in_other_clothes(tmp_path: Path, text: str) -> None:
    assert read_facts(put(tmp_path, text))[0] == read_facts(put(tmp_path, CITIES, "plain.csv"))[0]


def test_cells_are_strings(tmp_path: Path) -> None:
    table, _ = read_facts(put(tmp_path, "a,b\n007,1.0\n7,1\nNA,null\n1e3,true\n"))
    assert facts_of(table) == [(("007",), "1.0"), (("7",), "1"), (("NA",), "null"), (("1e3",), "true")]


def test_columns_can_be_chosen(tmp_path: Path) -> None:
    path = put(tmp_path, "id,a,b,note\n1,x,y,\n2,z,w,n\n")
    table, report = read_facts(path, target="a", columns=["b", "id"])
    assert facts_of(table) == [(("y", "1"), "x"), (("w", "2"), "z")]
    assert report.columns == ("b", "id")
    with pytest.raises(UnknownName, match=r"no column in facts.csv named 'nota'; did you mean 'note'"):
        read_facts(path, target="nota")
    for target, columns in ((None, ["a", "a"]), (None, []), ("a", ["a"]), (None, "ab")):
        with pytest.raises(UsageError):
            read_facts(path, target=target, columns=columns)
    assert read_facts(path, target="a", columns="b, id")[0] == table


def test_words_and_characters(tmp_path: Path) -> None:
    path = put(tmp_path, "a,b,c\nnew  york,big city,united states\nrome,old,italy\n")
    table, report = read_facts(path, tokens="words")
    assert facts_of(table)[0] == (("new", "york", "big", "city"), "united states")
    assert table.contexts[1].tolist()[:2] == [0, 0]
    assert (table.vocabulary.pad_id, report.n_padded) == (0, 1)
    table, _ = read_facts(path, tokens="chars", columns=["b"])
    assert facts_of(table) == [(tuple("big city"), "united states"), (tuple("old"), "italy")]
    with pytest.raises(UnknownName, match="did you mean 'words'"):
        read_facts(path, tokens="word")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("\n\r\n", "only blank lines"),
        ("a,b\n", r"has a header \(a, b\) but no rows"),
        ("a,b", "no rows"),
        ("a\nx\n", "only the column 'a'"),
        ("a,a\nx,y\n", "columns 1 and 2 are both named 'a'"),
        ("a,,c\nx,y,z\n", "column 2 has no name"),
        ("a,b\nx,y\nz\n", r"row 2 \(line 3\) has 1 cell, but the header names 2: 'z'"),
        ("a,b\nx,y,z\n", r"row 1 \(line 2\) has 3 cells"),
        ('a,b\n"x\ny",z\nu,\n', r"row 2 \(line 4\): column 'b' holds nothing"),
        ("a,b\nx,y\n  ,z\n", r"row 2 \(line 3\): column 'a' holds only white space, '  '"),
        ('a,b\nx,"y\n', "row that starts on line 2 is not valid CSV"),
        ('a,b\nx,"y"z\n', "line 2 is not valid CSV"),
        (b"a,b\nx,y\nz,\xff\n", "line 3: byte 0xff at offset 10 is not UTF-8"),
        (CITIES.encode("utf-16"), "UTF-16, as spreadsheets write Unicode text"),
        (b"a,b\nx,y\0\n", "line 2: NUL byte at offset 7"),
        ("a,b\nx,<pad>\n", r"row 1 \(line 2\): column 'b' holds '<pad>'"),
        ("a,b,c\nx,<pad>,y\n", r"row 1 \(line 2\): a cell is '<pad>'"),
        (f"a,b\n{'x' * 200_000},y\n", "a cell goes on for more than 131,072 characters"),
        ('"sep=|"\na|b\nx|\n', r"line 3\): column 'b' holds nothing"),
    ],
)
def test_bad_csv_is_refused_with_its_place(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_facts(put(tmp_path, text))


def test_a_spreadsheet_may_say_what_cuts_its_lines(tmp_path: Path) -> None:
    table, _ = read_facts(put(tmp_path, "sep=;\r\nkey;answer\r\na,b;1\r\nc;2\r\n"))
    assert [table.fact_text(i) for i in range(2)] == ["(a,b) -> 1", "(c) -> 2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "b": 2}\n{"a": 1}', r"row 2 \(line 2\): column 'b' holds nothing"),
        ('{"a": 1, "b": 2}\n{"a": 1, "b": 2, "c": 3}', "line 2 .*has 'c'"),
        ('{"a": 1, "b": NaN}', "line 1 .*NaN"),
        ('{"a": 1, "b": 1e999}', "too large"),
        ('{"a": 1, "b": null}', r"row 1 \(line 1\): column 'b' holds nothing"),
        ('{"a": 1, "b": [2]}', "line 1: column 'b' .*list"),
        ('{"a": 1, "b": 2} x', "something follows"),
        ('{"a": 1, "a": 2}', "twice"),
        ("[1, 2]", "not an object"),
        ("{}", "empty"),
        ("{", "line 1 is not a row"),
        ("[" * 100_000, "nested more than 64 levels"),
        ('{"a": ' + "1" * 5000 + "}", "line 1"),
    ],
)
def test_bad_json_lines_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_facts(put(tmp_path, text, "facts.jsonl"))


def test_parquet_types(tmp_path: Path) -> None:
    path = tmp_path / "facts.parquet"
    frame = pl.DataFrame({"i": [1, 20], "f": [0.1, 1e20], "b": [True, False], "l": [[1], [2]], "s": ["x", "y"]})
    frame.with_columns(pl.col("f").cast(pl.Float32).alias("g")).write_parquet(path)
    table, _ = read_facts(path, columns=["i", "f", "g", "b"], target="s")
    assert facts_of(table) == [(("1", "0.1", "0.1", "true"), "x"), (("20", "1e+20", "1e+20", "false"), "y")]
    with pytest.raises(DataError, match="column 'l' is of type List"):
        read_facts(path)
    pl.DataFrame({"a": [1.0, float("nan")], "b": ["x", "y"]}).write_parquet(path)
    with pytest.raises(DataError, match="row 2: column 'a' holds nan"):
        read_facts(path)
    pl.DataFrame({"a": ["x", None], "b": ["x", "y"]}).write_parquet(path)
    with pytest.raises(DataError, match="row 2: column 'a' holds nothing"):
        read_facts(path)


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path / "none.csv", "there is no file"),
        (tmp_path, "is a directory"),
        (put(tmp_path, "x", "facts.xlsx"), "known endings are .csv"),
        (put(tmp_path, "x", "facts"), "cannot tell the format"),
        (put(tmp_path, "x", "facts.csv.gz"), "not a whole gzip file"),
        (tmp_path / ("n" * 300 + ".csv"), "cannot read"),
    ):
        with pytest.raises(DataError, match=words):
            read_facts(path)


def test_conflicts_name_rows_and_can_be_settled(tmp_path: Path) -> None:
    path = put(tmp_path, "a,b\np,x\n\nq,x\np,y\np,y\np,z\nq,w\np,v\n")
    with pytest.raises(ConflictError) as caught:
        read_facts(path)
    said = str(caught.value)
    assert "row 1 (line 2): (p) -> x against facts.csv row 3 (line 5): (p) -> y" in said
    assert "4 facts contradict" in said
    assert "and 1 more" in said
    assert "on_conflict" in said and "'distributions'" in said
    table, report = read_facts(path, on_conflict="first")
    assert facts_of(table) == [(("p",), "x"), (("q",), "x")]
    assert (report.n_rows, report.n_duplicates, report.n_conflicts_resolved) == (7, 1, 4)
    table, _ = read_facts(path, on_conflict="last")
    assert facts_of(table) == [(("q",), "w"), (("p",), "v")]
    check_invariants(table)


def test_weights(tmp_path: Path) -> None:
    path = put(tmp_path, "a,w,b\np,0.5,x\nq,2,y\n")
    table, report = read_facts(path, weight="w")
    assert table.weights is not None
    assert table.weights.tolist() == [0.5, 2]
    assert (report.columns, report.weight) == (("a",), "w")
    for bad in ("-1", "nan", "inf", "two"):
        with pytest.raises(DataError, match=rf"row 1 \(line 2\): column 'w' holds '{bad}'"):
            read_facts(put(tmp_path, f"a,w,b\np,{bad},x\n"), weight="w")
    with pytest.raises(UsageError, match="at once"):
        read_facts(path, weight="w", columns=["w"])


def test_one_long_cell_does_not_exhaust_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenise_module, "_FREE_CELLS", 1000)
    path = put(tmp_path, "a,b\n" + "".join(f"{k},x\n" for k in range(500)) + "z" * 5000 + ",x\n")
    with pytest.raises(DataError, match=r"row 501 \(line 502\): this context has 5000 tokens"):
        read_facts(path, tokens="chars")
    assert read_facts(path)[0].n_facts == 501


def test_equal_hashes_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, "a,b\n" + "".join(f"c{k % 37},t{k % 37 % 5}\n" for k in range(100)))
    wanted = read_facts(path)[0]
    monkeypatch.setattr(pl.Series, "hash", lambda self: self.str.len_bytes().cast(pl.UInt64))
    assert read_facts(path)[0] == wanted


@pytest.mark.parametrize("ending", FORMATS)
def test_round_trip(tmp_path: Path, ending: str) -> None:
    nasty = ["a,b", 'q"q', "l\nm", "c\rd", "t\tt", "[red]", "é", "\ufeffx", "007", "1e5", "#", "'", "\\", "null", "😀"]
    table = FactTable.from_rows([[token] for token in nasty] + [["x", "y"]], [*nasty[1:], "z", "w"])
    path = tmp_path / f"out.{ending}"
    write_facts(table, path)
    again, report = read_facts(path)
    assert again == table
    assert report.n_padded == len(nasty)
    weighted = FactTable.from_rows([["a", "b"], ["c", "d"]], ["x", "y"], weights=[1 / 3, 1e-300])
    write_facts(weighted, path, columns=["one", "two", "three"])
    again, report = read_facts(path, weight="weight")
    assert again == weighted
    assert (*report.columns, *report.target) == ("one", "two", "three")
    big = random_facts(5000, 3, 40, rng=np.random.default_rng(0))
    write_facts(big, path)
    assert read_facts(path)[0] == big


@settings(max_examples=100, deadline=None)
@given(
    rows=st.dictionaries(
        st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4), min_size=1, max_size=3).map(
            tuple
        ),
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4),
        min_size=1,
        max_size=6,
    ),
    ending=st.sampled_from(["csv", "tsv", "jsonl", "parquet"]),
)
def test_whatever_can_be_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: dict[tuple[str, ...], str], ending: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any.{ending}"
    table = FactTable.from_rows(list(rows), list(rows.values()))
    risky = any(token != token.strip() or "\0" in token for token in table.vocabulary)
    try:
        write_facts(table, path)
    except DataError:
        assert risky
        return
    assert not risky
    assert read_facts(path)[0] == table


def test_writing_refuses_what_would_not_come_back(tmp_path: Path) -> None:
    table = FactTable.from_rows([["a", " "]], ["x"])
    with pytest.raises(DataError, match="' ' cannot be stored"):
        write_facts(table, tmp_path / "f.csv")
    good = FactTable.from_rows([["a", "b"]], ["x"])
    for columns in (["a", "b"], ["a", "a", "b"], ["a", "", "b"]):
        with pytest.raises(UsageError):
            write_facts(good, tmp_path / "f.csv", columns=columns)
    with pytest.raises(DataError, match="known endings"):
        write_facts(good, tmp_path / "f.doc")
    assert list(tmp_path.iterdir()) == []


def test_failed_writes_leave_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = FactTable.from_rows([["a"]], ["x"])
    path = put(tmp_path, "old")

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match="the disk is full"):
        write_facts(table, path)
    monkeypatch.undo()
    assert [entry.name for entry in tmp_path.iterdir()] == ["facts.csv"]
    assert path.read_text() == "old"
    for wrong, words in ((tmp_path / "no" / "f.csv", "does not exist"), (tmp_path / "d.csv", "is a directory")):
        (tmp_path / "d.csv").mkdir(exist_ok=True)
        with pytest.raises(OutputError, match=words):
            write_facts(table, wrong)
    write_facts(table, path)
    assert path.stat().st_mode & 0o777 == 0o666 & ~current_umask()


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_pad_in_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RoteError, match=r"row 2 \(line 3\): column 'a' holds the word '<pad>'"):
        read_facts(put(tmp_path, f"a,b\nx y z,y\n{PAD} y,z\n"), tokens="words")


@pytest.mark.parametrize("text", ["a;b\nx;1,5\ny;2\n", "a\tb\nx\t1,5\ny\t2\n", "\ufeffa;b\r\nx;1,5\r\ny;2\r\n"])
def test_a_csv_file_may_have_semicolons_or_tabs(tmp_path: Path, text: str) -> None:
    table, _ = read_facts(put(tmp_path, text))
    assert [table.record(i)["target"] for i in range(2)] == ["1,5", "2"]


def test_a_header_with_a_comma_is_cut_at_commas(tmp_path: Path) -> None:
    table, _ = read_facts(put(tmp_path, "a;b;c,d\nx;1,y\n"))
    assert table.record(0) == {"context": ["x;1"], "target": "y"}


def test_keys_that_objects_lack_are_empty_cells(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1, "b": 2}\n{"a": 3}\n{"b": 4}\n')
    assert read_facts(path, on_missing="skip")[0].n_facts == 1
    assert read_facts(path, on_missing="token")[0].record(1)["target"] == "<missing>"


def test_separators_at_the_end_of_lines_make_no_column(tmp_path: Path) -> None:
    file = tmp_path / "trailing.csv"
    file.write_text("code;name;;\n8364;euro;;\n65;A;\n66;B\n")
    table = rote.read(file)
    assert [table.fact_text(i) for i in range(3)] == ["(8364) -> euro", "(65) -> A", "(66) -> B"]
    file.write_text("code;name;\n8364;euro;\n65;A;x\n")
    with pytest.raises(DataError, match="column 3 has no name in the header"):
        read_facts(file)
