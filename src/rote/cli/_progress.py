"""How a build stands: what is tried, the stage, facts recalled so far, and a time left only where it is known.

On a terminal every attempt is a line, and below it one that moves; in a log it is a plain line every few seconds, none
for what is done sooner. Where the variable ROTE_PROGRESS is 0, nothing is shown.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rote.cli._output import console

if TYPE_CHECKING:
    from rich.console import Console

    from rote.solvers.record import Attempt

__all__ = ["Watch", "display", "shown", "ticking"]

LINE_EVERY = 5.0
"""Seconds between two lines of a log."""
_TOO_EARLY = 0.05
"""The share of a stage below which its pace says nothing about the rest."""


class Watch:
    """What is known of a build; called as progress, and told of attempts."""

    def __init__(self, n_facts: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.n_facts, self._clock = n_facts, clock
        self.trying, self.stage = "", "plan"
        self.done = self.total = 0
        self.recalled: int | None = None
        self.started = clock()
        self._first: tuple[int, float] | None = None
        self.changed: Callable[[], None] = lambda: None

    def attempt(self, attempt: Attempt) -> None:
        self.trying = str(attempt)
        self("start", 0, 0, None)

    def __call__(self, stage: str, done: int, total: int, recalled: int | None) -> None:
        if stage != self.stage:
            self._first = None
        if self._first is None and done:
            # What came before the first rows (a library that is loaded, say) is not their pace.
            self._first = (done, self._clock())
        self.stage, self.done, self.total, self.recalled = stage, done, total, recalled
        self.changed()

    @property
    def share(self) -> float | None:
        """How much of the stage is done: rows of all, or facts recalled of all; None where neither is known."""
        if self.total:
            return min(1.0, self.done / self.total)
        return None if self.recalled is None else self.recalled / self.n_facts

    @property
    def left(self) -> float | None:
        """Seconds until the stage ends, where it goes through rows at a steady pace and enough of them are done."""
        if not self.total or self._first is None:
            return None
        rows, spent = self.done - self._first[0], self._clock() - self._first[1]
        if rows < _TOO_EARLY * self.total or spent < 1.0:
            return None
        return spent * max(0, self.total - self.done) / rows

    def __str__(self) -> str:
        parts = [self.stage if not self.total else f"{self.stage} {100 * (self.share or 0.0):.0f} %"]
        if self.recalled is not None:
            parts.append(f"{self.recalled:,} of {self.n_facts:,} facts recalled")
        left = self.left
        if left is not None and self.done < self.total:
            parts.append(f"{left:.0f} s left of it")
        return ", ".join(parts)

    def line(self) -> str:
        """All of it on one line, for a log."""
        before = f"{self.trying}: " if self.trying else ""
        return f"{self._clock() - self.started:.0f} s: {before}{self}"


def shown() -> bool:
    """Whether progress is wanted at all."""
    return os.environ.get("ROTE_PROGRESS") != "0"


@contextlib.contextmanager
def display(n_facts: int, *, enabled: bool) -> Iterator[Watch]:
    """Yield what is to be told how things go; it draws on stderr."""
    out, watch = console(stderr=True), Watch(n_facts)
    if not (enabled and shown()):
        yield watch
    elif out.is_terminal:
        with _live(out, watch):
            yield watch
    else:
        with ticking(out, watch.line):
            yield watch


@contextlib.contextmanager
def ticking(out: Console, line: Callable[[], str]) -> Iterator[None]:
    """Print a line every few seconds, whatever the main thread is doing."""
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(LINE_EVERY):
            out.print(line(), markup=False, soft_wrap=True)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def _live(out: Console, watch: Watch) -> Iterator[None]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(bar_width=24), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task("plan", total=None)
        trying = ""

        def draw() -> None:
            nonlocal trying
            if watch.trying != trying:
                trying = watch.trying
                bar.console.print(trying, style="dim", markup=False)
            share = watch.share
            bar.update(task, total=None if share is None else 1.0, completed=share or 0.0, description=str(watch))

        watch.changed = draw
        yield
