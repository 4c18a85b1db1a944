"""Empty cells: counted at once, left out, or given a token; and facts of several answer columns."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import rote
from rote.data import FactTable
from rote.errors import DataError, UsageError

GAPS = "code,name,kind\nA,alpha,x\nB,,y\nC,  ,\nD,delta,z\n"


def written(tmp_path: Path, text: str, name: str = "gaps.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def facts_of(table: rote.Table) -> dict[tuple[str, ...], str]:
    assert isinstance(table, FactTable)
    return {table.context_tokens(i): table.vocabulary.token(int(table.targets[i])) for i in range(table.n_facts)}


def test_all_holes_are_counted_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"row 2 \(line 3\): column 'name' holds nothing \(3 such cells in 2 rows: "
    ) as e:
        rote.read(written(tmp_path, GAPS))
    assert "2 in 'name', 1 in 'kind'" in str(e.value) and "on_missing" in str(e.value)


def test_rows_with_holes_are_left_out_and_the_others_keep_their_places(tmp_path: Path) -> None:
    table = rote.read(written(tmp_path, GAPS), on_missing="skip")
    assert facts_of(table) == {("A", "alpha"): "x", ("D", "delta"): "z"}
    assert table.reading is not None and table.reading.n_missing == 2
    assert table.place(1) == "gaps.csv row 4 (line 5)"
    with pytest.raises(DataError, match="all 2 rows have an empty cell"):
        rote.read(written(tmp_path, "a,b\nx,\ny, \n"), on_missing="skip")


def test_holes_in_columns_that_are_not_in_use_do_not_matter(tmp_path: Path) -> None:
    assert rote.read(written(tmp_path, "a,b,c\nx,,y\n"), columns="a", target="c").n_facts == 1


def test_a_token_stands_for_what_is_missing(tmp_path: Path) -> None:
    path = written(tmp_path, GAPS)
    assert facts_of(rote.read(path, on_missing="token"))[("C", "<missing>")] == "<missing>"
    spelled = rote.read(written(tmp_path, "a,b\nxy,1\n,2\n"), tokens="chars", on_missing="token")
    assert facts_of(spelled) == {("x", "y"): "1", ("∅",): "2"}
    with pytest.raises(DataError, match=r"row 1 .* holds '<missing>', which is to stand for empty cells"):
        rote.read(written(tmp_path, "a,b\n<missing>,1\n,2\n"), on_missing="token")


def test_numbers_that_are_none_are_holes_too(tmp_path: Path) -> None:
    path = tmp_path / "n.parquet"
    pl.DataFrame({"a": [1.5, float("nan"), None], "b": ["x", "y", "z"]}).write_parquet(path)
    assert facts_of(rote.read(path, on_missing="skip")) == {("1.5",): "x"}
    assert facts_of(rote.read(path, on_missing="token", target="a")) == {
        ("x",): "1.5",
        ("y",): "<missing>",
        ("z",): "<missing>",
    }


def test_a_weight_has_no_token_that_could_stand_for_it(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b,w\nx,1,2\ny,2,\n")
    with pytest.raises(DataError, match="column 'w' holds nothing"):
        rote.read(path, weight="w", on_missing="token")
    assert rote.read(path, weight="w", on_missing="skip").n_facts == 1


def test_sequences_and_distributions_settle_holes_too(tmp_path: Path) -> None:
    pairs = written(tmp_path, "a,b,y,z\n1,2,3,4\n5,,6,7\n")
    assert rote.read(pairs, kind="sequences", target="y,z", on_missing="skip").n_facts == 1
    assert rote.read(pairs, target="y,z", columns="a,b", on_missing="skip").n_facts == 2
    counts = written(tmp_path, "a,next,count\nx,1,2\nx,2,3\n,1,1\n")
    table = rote.read(counts, on_missing="skip")
    assert (table.kind, table.n_facts) == ("distributions", 1)
    assert rote.read(counts, on_missing="token").n_facts == 2


def test_a_first_column_that_tells_rows_apart_is_the_key_of_several_answers(tmp_path: Path) -> None:
    path = written(tmp_path, "code,name,kind,way\n0A,alpha,x,L\n0B,beta,y,L\n0C,beta,x,R\n")
    table = rote.read(path, target="name,kind")
    assert ("0A", "name") in facts_of(table)
    assert table.reading is not None and (table.reading.key, table.reading.unread) == ("code", ("way",))
    whole = rote.read(path, target="name,kind", columns="code,way")
    assert ("0A", "L", "name") in facts_of(whole)
    assert whole.reading is not None and whole.reading.unread == ()
    # A later column may tell rows apart by accident.
    other = rote.read(written(tmp_path, "way,code,name,kind\nL,0A,alpha,x\nL,0B,beta,y\n"), target="name,kind")
    assert ("L", "0A", "name") in facts_of(other)


def test_several_targets_are_properties(tmp_path: Path) -> None:
    table = rote.read(
        written(tmp_path, "code,name,the kind\n0A,alpha,x\n0B,beta,y\n"), tokens="chars", target="name,the kind"
    )
    assert facts_of(table) == {
        ("0", "A", "name"): "alpha",
        ("0", "B", "name"): "beta",
        ("0", "A", "the kind"): "x",
        ("0", "B", "the kind"): "y",
    }
    assert table.properties == ("name", "the kind")
    assert table.place(3).endswith("row 2 (line 3)")


def test_a_row_without_one_answer_still_gives_the_others(tmp_path: Path) -> None:
    path = written(tmp_path, GAPS)
    assert set(facts_of(rote.read(path, target="name,kind", on_missing="skip"))) == {
        ("A", "name"), ("A", "kind"), ("B", "kind"), ("D", "name"), ("D", "kind"),
    }  # fmt: skip
    with pytest.raises(DataError, match="2 in 'name', 1 in 'kind'"):
        rote.read(path, target="name,kind")


def test_properties_that_cannot_be(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b,c\n1,2,3\n")
    with pytest.raises(UsageError, match="named twice"):
        rote.read(path, target="b,b")
    with pytest.raises(UsageError, match="'b' cannot be"):
        rote.read(path, target="b,c", columns="b")
    with pytest.raises(UsageError, match="leave at least one of them for the context"):
        rote.read(path, target="a,b,c", kind="facts")


def test_a_key_is_noticed_only_where_nobody_chose_columns(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b,c\n1,2,3\n2,2,4\n")
    for target, columns, key in ((None, None, "a"), ("c", None, None), (None, "a,b", None)):
        reading = rote.read(path, target=target, columns=columns).reading
        assert reading is not None and reading.key == key
