"""Limits and slips in tables: many columns, and counts that are no numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

import rote
from rote.data.rows import MOST_COLUMNS
from rote.errors import DataError


def wide(path: Path, n_columns: int, n_rows: int = 3) -> Path:
    lines = [",".join(f"c{k}" for k in range(n_columns))]
    lines += [",".join(f"v{(7 * k + row) % 50}" for k in range(n_columns)) for row in range(n_rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_widest_table(tmp_path: Path) -> None:
    table = rote.read(wide(tmp_path / "wide.csv", MOST_COLUMNS))
    assert table.context == MOST_COLUMNS - 1
    assert table.record(2)["context"][:2] == ["v2", "v9"]
    assert table.record(0)["target"] == f"v{7 * (MOST_COLUMNS - 1) % 50}"


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_more_columns_are_refused(tmp_path: Path, ending: str) -> None:
    import polars as pl

    path = tmp_path / f"wide.{ending}"
    frame = pl.DataFrame({f"c{k}": ["a", "b"] for k in range(MOST_COLUMNS + 1)})
    if ending == "csv":
        frame.write_csv(path)
    elif ending == "jsonl":
        frame.write_ndjson(path)
    else:
        frame.write_parquet(path)
    with pytest.raises(DataError, match=r"20,001 columns.* limit.* 20,000"):
        rote.read(path)


def test_an_empty_cell_among_many_columns_is_named(tmp_path: Path) -> None:
    path = wide(tmp_path / "wide.csv", 50)
    path.write_text(path.read_text().replace("v9,", " ,", 1))
    with pytest.raises(DataError, match=r"row 3 \(line 4\): column 'c1' holds only white space|row . \(line .\)"):
        rote.read(path)


@pytest.mark.parametrize("slip", ["x", "-1", "nan", "1e999", "", "2,5", "٣"])
def test_counts_with_a_slip_are_refused(tmp_path: Path, slip: str) -> None:
    """Contexts repeat and the last column is `count`: these are distributions, whatever one of the counts says."""
    path = tmp_path / "counts.csv"
    path.write_text(f'c1,next,count\na,x,3\na,y,"{slip}"\nb,x,2\nb,z,5\n')
    with pytest.raises(DataError, match=r"row 2 \(line 3\): column 'count' holds"):
        rote.read(path)


def test_a_column_of_words_called_count_is_a_target(tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text("c1,c2,count\na,x,few\na,y,many\nb,x,few\n")
    assert rote.read(path).kind == "facts"


def test_a_line_of_very_many_cells_is_refused_before_it_is_cut(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_bytes(b"a,b\n1,2\n" + b"x," * 3_000_000 + b"\n")
    with pytest.raises(DataError, match="line 3 has more than"):
        rote.read(tmp_path / "wide.csv")


def test_a_long_text_with_commas_is_a_cell(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text('a,b\n"' + "x, " * 40_000 + '",2\n', encoding="ascii")
    assert rote.read(tmp_path / "long.csv").n_facts == 1
