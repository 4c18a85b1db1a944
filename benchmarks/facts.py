"""Reading a million facts: seconds and peak memory, against the csv module of Python in the same run.

Usage: python benchmarks/facts.py [ROWS]

Each measurement runs in a process of its own, so that its peak memory is its own. `base` is the memory of the imports.
"""

from __future__ import annotations

import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np


def write_inputs(folder: Path, n_rows: int) -> dict[str, Path]:
    """The same facts as plain CSV, quoted CSV, JSONL and Parquet, and a CSV in which nearly all cells differ."""
    import polars as pl

    rng = np.random.default_rng(0)
    city, relation, country = rng.permutation(n_rows), rng.integers(50, size=n_rows), rng.integers(1000, size=n_rows)
    frame = pl.DataFrame(
        {
            "city": [f"city{k}" for k in city],
            "relation": [f"relation{k}" for k in relation],
            "country": [f"country{k}" for k in country],
        }
    )
    files = {
        name: folder / f"{name}.{ending}"
        for name, ending in (
            ("plain", "csv"),
            ("quoted", "csv"),
            ("distinct", "csv"),
            ("lines", "jsonl"),
            ("columns", "parquet"),
        )
    }
    frame.write_csv(files["plain"])
    frame.write_csv(files["quoted"], quote_style="always")
    frame.write_ndjson(files["lines"])
    frame.write_parquet(files["columns"])
    other = pl.DataFrame({name: [f"{name}{k}" for k in rng.permutation(n_rows)] for name in "abc"})
    other.write_csv(files["distinct"])
    return files


def reference(path: Path) -> int:
    """A plain reader: the csv module, one dictionary of ids, lists of tuples."""
    ids: dict[str, int] = {}
    facts: dict[tuple[int, ...], int] = {}
    with path.open(encoding="utf-8", newline="") as lines:
        rows = csv.reader(lines)
        next(rows)
        for row in rows:
            coded = [ids.setdefault(cell.strip(), len(ids)) for cell in row]
            facts[tuple(coded[:-1])] = coded[-1]
    return len(facts)


def peak_mb() -> float:
    """Peak resident memory of this process. Where there is /proc, from there: ru_maxrss also counts the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(what: str, path: Path) -> None:
    """Run one measurement and print it as JSON (in a process of its own)."""
    from rote.data import read

    base = peak_mb()
    start = time.perf_counter()
    if what == "reference":
        n_facts = reference(path)
    else:
        n_facts = read(path, tokens="chars" if what == "chars" else "cells").n_facts
    seconds = time.perf_counter() - start
    print(json.dumps({"facts": n_facts, "seconds": seconds, "peak": peak_mb(), "base": base}))


def run(what: str, path: Path) -> dict[str, Any]:
    done = subprocess.run([sys.executable, __file__, "--one", what, str(path)], capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(n_rows: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        files = write_inputs(Path(name), n_rows)
        plain = run("reference", files["plain"])
        print(f"{n_rows:,} rows x 3 columns; ratios against the csv module on the plain file")
        print(f"{'reader':<22}{'file MB':>9}{'seconds':>9}{'peak MB':>9}{'base MB':>9}{'x time':>8}{'x memory':>10}")
        cases = [
            ("reference", "plain"),
            ("cells", "plain"),
            ("cells", "quoted"),
            ("cells", "lines"),
            ("cells", "columns"),
            ("chars", "plain"),
            ("reference", "distinct"),
            ("cells", "distinct"),
        ]
        for what, file in cases:
            got = plain if (what, file) == ("reference", "plain") else run(what, files[file])
            used, used_plain = got["peak"] - got["base"], plain["peak"] - plain["base"]
            print(
                f"{what + ' ' + file:<22}{files[file].stat().st_size / 1e6:>9.1f}{got['seconds']:>9.2f}"
                f"{got['peak']:>9.0f}{got['base']:>9.0f}{got['seconds'] / plain['seconds']:>8.2f}"
                f"{used / used_plain:>10.2f}"
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(sys.argv[2], Path(sys.argv[3]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
