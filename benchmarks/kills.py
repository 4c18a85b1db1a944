"""A sweep that trains, killed (SIGKILL) at 20 random moments through the command line, beside an undisturbed one.

    python benchmarks/kills.py [kills] [seed]

Prints how far each run came, whether any process of the sweep outlived its driver, and whether the rows are the same in
the end. The exit code is 1 if they are not.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SWEEP = """
seeds = 3
[base]
d_model = 6
context = 2
vocab = 12
task = "recall"
steps = 60
[grid]
n_heads = [1, 2, 3, 4]
n_facts = [20, 40, 60, 80, 100, 120, 140]
"""
OWN = ("duration", "when", "started", "finished", "cpu_seconds", "seconds", "group_seconds")


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "rote", *words]


def rows(database: Path) -> dict[str, dict[str, Any]]:
    """Results by cell, without what a clock says."""
    shown = subprocess.run(
        command("results", str(database), "--format", "json"), check=True, capture_output=True, text=True
    )
    found = json.loads(shown.stdout)
    listed = found["rows"] if isinstance(found, dict) else found
    kept = {one["hash"]: {key: value for key, value in one.items() if key not in OWN} for one in listed}
    assert len(kept) == len(listed), "a cell has two rows"
    return kept


def left_over(mark: str) -> int:
    """Processes that carry the mark of this run in their environment (Linux)."""
    found = 0
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            found += f"ROTE_KILLS={mark}".encode() in place.read_bytes().split(b"\0")
        except OSError:
            continue
    return found


def main(kills: int, seed: int) -> int:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="rote-kills-") as folder:
        file, calm, shaken = Path(folder, "sweep.toml"), Path(folder, "calm.db"), Path(folder, "shaken.db")
        file.write_text(SWEEP, encoding="utf-8")
        begun = time.monotonic()
        subprocess.run(command("sweep", str(file), "--db", str(calm)), check=True, capture_output=True)
        whole = time.monotonic() - begun
        for number in range(kills):
            child = subprocess.Popen(
                command("sweep", str(file), "--db", str(shaken), "--jobs", "2"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "ROTE_KILLS": folder},
            )
            while number % 4 and left_over(folder) < 2 and child.poll() is None:  # one in four dies during start-up
                time.sleep(0.05)
            time.sleep(rng.random() * whole * 0.4)
            running = left_over(folder)
            child.send_signal(signal.SIGKILL)
            child.wait()
            patience = time.monotonic() + 20  # a worker that is still importing ends as soon as it has
            while (orphans := left_over(folder)) and time.monotonic() < patience:
                time.sleep(0.1)
            have = len(rows(shaken)) if shaken.exists() else 0
            print(f"kill {number + 1}: {have} rows, {running} processes before and {orphans} after", flush=True)
            if orphans:
                return 1
            if have == len(rows(calm)):  # done too early: begin again with what is there taken away
                os.replace(shaken, Path(folder, f"done{number}.db"))
        subprocess.run(command("sweep", str(file), "--db", str(shaken)), check=True, capture_output=True)
        same = rows(calm) == rows(shaken)
        print(f"{len(rows(calm))} rows undisturbed, {len(rows(shaken))} after {kills} kills; the same: {same}")
        return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:3]), *(20, 0)[len(sys.argv[1:3]) :]))
