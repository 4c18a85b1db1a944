"""`rote sweep`: a grid of cells, every result in one file, nothing done twice."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rote.cli._measuring import DeviceOption, MemoryOption, check_device, duration, memory_bytes
from rote.cli._output import JsonOption, console, emit_json

if TYPE_CHECKING:
    from rote.measure.sweep import Executor, Progress

__all__ = ["sweep"]

_LINE_EVERY = 15.0
"""Seconds between lines where there is no terminal to draw on."""


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The grid of cells.")],
    db: Annotated[Path, typer.Option("--db", metavar="FILE.db", help="Where the results go; made if it is not there.")],
    quick: Annotated[bool, typer.Option("--quick", help="The file's own reduced grid, its [quick] table.")] = False,
    on: Annotated[str, typer.Option(help="Where to run: local or ray.")] = "local",
    address: Annotated[str | None, typer.Option(help="Ray cluster; one is started here if not given.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes on this machine.")] = 1,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed and diverged cells again.")] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first cell that fails.")] = False,
    max_memory: MemoryOption = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Run every cell of a grid that has no result yet; run it again after ctrl-C, a crash or a change of the grid.

    Exit code 1: some cell failed or diverged (its row says why).

    Example:

        $ rote sweep heads.toml --db heads.db --quick
    """
    from rote.errors import UsageError
    from rote.measure import Journal, read_sweep, run_sweep
    from rote.measure.sweep import Progress

    cells = read_sweep(file, quick=quick)
    executor = _executor(on, address, jobs, memory_bytes(max_memory), check_device(device))
    if address is not None and on != "ray":
        raise UsageError("--address is for --on ray.")
    began = time.monotonic()
    with Journal(db) as journal, _display(enabled=not as_json) as draw:
        made = run_sweep(
            cells, journal, executor, retry=retry_failed, fail_fast=fail_fast, progress=Progress(draw=draw)
        )
        bad = sum(1 for cell in cells.cells if journal.statuses().get(cell.hash) != "done")
    spent = time.monotonic() - began
    if as_json:
        emit_json(
            {
                "sweep": cells.name,
                "cells": made.total,
                "known": made.known,
                "done": made.done,
                "failed": made.failed,
                "not_done": bad,
                "seconds": spent,
                "bookkeeping_seconds": made.book_seconds,
                "db": str(db),
            }
        )
    else:
        out = console()
        text = f"{cells.name}: {made.total:,} cells, {made.known:,} known before, {made.done:,} done now"
        out.print(f"{text}, {made.failed:,} failed, in {duration(spent)}.", markup=False)
        if made.best:
            out.print(f"Best now: {made.best}.", markup=False)
        if bad:
            out.print(f"{bad:,} cells have no result; see `rote results {db} --where status!=done`.", markup=False)
    if bad:
        raise typer.Exit(1)


def _executor(on: str, address: str | None, jobs: int, max_memory: int | None, device: str) -> Executor:
    from rote.errors import UnknownName
    from rote.measure.executors import Local

    if on == "local":
        return Local(jobs, max_memory, device)
    if on == "ray":
        from rote.measure.on_ray import OnRay

        return OnRay(address, max_memory, device)
    raise UnknownName("place to run on", on, ("local", "ray"))


@contextlib.contextmanager
def _display(*, enabled: bool) -> Iterator[Any]:
    """A live line on a terminal; a plain line now and then in a log; nothing for --json."""
    if not enabled:
        yield None
        return
    out = console(stderr=True)
    if out.is_terminal:
        from rich.live import Live
        from rich.text import Text

        with Live(Text(""), console=out, refresh_per_second=4, transient=True) as live:
            yield lambda progress: live.update(Text(_line(progress)))
        return
    last = time.monotonic()

    def plain(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= _LINE_EVERY:
            last = time.monotonic()
            out.print(_line(progress), markup=False)

    yield plain


def _line(progress: Progress) -> str:
    done = progress.known + progress.done + progress.failed
    parts = [f"{done:,} of {progress.total:,} cells done"]
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    parts += [f"{progress.running:,} running", f"{progress.left:,} left", f"{duration(progress.to_go())} to go"]
    if progress.best:
        parts.append(f"best {progress.best}")
    return ", ".join(parts)
