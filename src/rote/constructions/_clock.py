"""Seconds and progress of a graft, by stage."""

from __future__ import annotations

import time
from collections.abc import Callable

from rote.solvers.record import Progress

__all__ = ["Clock"]


class Clock:
    """Seconds by stage, and progress by stage."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.seconds: dict[str, float] = {}
        self.begun, self.worked = time.perf_counter(), time.process_time()
        self.built = self.worked

    def stage(self, name: str, total: int) -> Callable[[int], None]:
        """A function to call with each number of items done."""
        done = 0
        self.progress(name, 0, total, None)

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self.progress(name, done, total, None)

        return advance

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self.begun
        self.begun = now
