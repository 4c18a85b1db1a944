"""How dense hashed tables are, that every fact comes back, and what building and verifying them costs.

Every row builds a table into a directory, as `rote build` does, verifies all facts again from disk, as `rote verify`
does, and prints dense parameters (every entry of every matrix, zeros included), bits for each of them, facts that the
referee recalled, and processor seconds. Facts are random: contexts of four tokens of 256, uniform labels; a fact weighs
log2 C bits. Airports are ICAO letters to country.

    python benchmarks/hashed_table.py                          all rows but those of a million facts
    python benchmarks/hashed_table.py 10000 airports           only these
    python benchmarks/hashed_table.py 1000000                  a million facts: minutes, and up to 3 GB
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import rote
from rote.data import FactTable, random_facts

FORMATS = ("bfloat16", "float16", "float32", "float64")


def table(n: int, classes: int) -> FactTable:
    """Random contexts of four tokens of 256, random labels among the first so many tokens."""
    rng = np.random.default_rng(0)
    facts = random_facts(n, 4, 256, rng=rng)
    return FactTable(facts.contexts, rng.integers(0, classes, n), facts.vocabulary, None, f"random-{n}-{classes}")


def row(name: str, facts: FactTable, dtype: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        memory = rote.build(facts, with_="hashed_table", dtype=dtype, rng=0)
        memory.save(Path(folder) / "model")
        built = time.process_time() - start
        certificate = memory.certificate
        start = time.process_time()
        seen = rote.verify(Path(folder) / "model", facts)
        verified = time.process_time() - start
    layout = certificate["report"]["layout"]
    print(
        f"| {name} | {dtype} | {layout['rows']:,} x {layout['words'] * layout['blocks']:,} | {layout['depth']} | "
        f"{certificate.params:,} | {certificate.bits_per_param:.2f} | {certificate['non_zero_params']:,} | "
        f"{seen.n_facts - seen.n_failed:,} of {facts.n_facts:,} | {built:.0f} | {verified:.0f} | "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} |",
        flush=True,
    )


def main(names: list[str]) -> int:
    wanted = names or ["10000", "100000", "airports"]
    print("| facts | format | rows x words | depth | dense parameters | bits each | non-zero | recalled | build s "
          "| verify s | peak GB |")  # fmt: skip
    print("|" + "---|" * 11)
    for name in wanted:
        if name == "airports":
            airports = rote.read("airports")
            assert isinstance(airports, FactTable)
            for dtype in ("bfloat16", "float32"):
                row("airports", airports, dtype)
            continue
        n = int(name)
        for classes in (256, 2):
            for dtype in FORMATS if n < 10**6 and classes > 2 else FORMATS[:3:2] if classes == 2 else FORMATS[:3]:
                row(f"{n:,}, C = {classes}", table(n, classes), dtype)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
