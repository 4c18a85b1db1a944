"""A progress display for builders: the stage, facts recalled so far, time left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rote.cli._output import console

if TYPE_CHECKING:
    from rote.solvers.record import Progress

__all__ = ["display"]


@contextlib.contextmanager
def display(n_facts: int, *, enabled: bool) -> Iterator[Progress]:
    """Yield a progress callback; draws on stderr, and only on a terminal."""
    from rote.solvers.record import quiet

    out = console(stderr=True)
    if not (enabled and out.is_terminal):
        yield quiet
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[recalled]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=out,
        transient=True,
    )
    with bar:
        task = bar.add_task("plan", total=None, recalled="")
        stage_now = ""

        def report(stage: str, done: int, total: int, recalled: int | None) -> None:
            nonlocal stage_now
            shown = "" if recalled is None else f"{recalled:,} of {n_facts:,} facts recalled"
            if stage != stage_now:
                bar.reset(task, description=stage, total=total, completed=done, recalled=shown)
                stage_now = stage
            else:
                bar.update(task, completed=done, total=total, recalled=shown)

        yield report
