"""`rote reproduce`: the figures of the papers, measured again, beside what was published."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rote.cli._measuring import DeviceOption, MemoryOption, check_device, duration, memory_bytes
from rote.cli._output import JsonOption, console, emit_json
from rote.cli.sweep import display, executor_of

if TYPE_CHECKING:
    from rote.lab.entries import Reproduced

__all__ = ["reproduce"]

_MOST_JOBS = 8


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ENTRY]...", help="Such as dana2025/exp1, a paper, all, or a TOML file of your own."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the entries and stop.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small grids: all entries in a quarter of an hour.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The papers' own grids: all entries in a night.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where it goes.")] = Path("reproduced"),
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one a core, at most 8, if not given.")] = None,
    on: Annotated[str, typer.Option(help="Where to run: local or ray.")] = "local",
    address: Annotated[str | None, typer.Option(help="Ray cluster; one is started here if not given.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed and diverged cells again.")] = False,
    max_memory: MemoryOption = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Run entries, draw their figures beside the published points, and decide their claims by the tests in them.

    Without --full the quick grids are run. Interrupt it at any time: the same command goes on where it was.

    Exit code 1: some cell failed or diverged. A claim that does not hold is a result, not a failure.

    Example:

        $ rote reproduce dana2025/exp1 --quick -o reproduced
    """
    from rote.errors import UsageError
    from rote.lab.entries import estimate, find_entries
    from rote.lab.entries import reproduce as run
    from rote.measure.sweep import Progress

    if listed:
        _list(names or ["all"], as_json)
        return
    if quick and full:
        raise UsageError("choose --quick or --full, and not both.")
    if address is not None and on != "ray":
        raise UsageError("--address is for --on ray.")
    if not names:
        raise UsageError("name an entry, such as dana2025/exp1, or all; `rote reproduce --list` shows them.")
    chosen = find_entries(names)
    workers = jobs or _cores()
    executor = executor_of(on, address, workers, memory_bytes(max_memory), check_device(device))
    total, missing, seconds = estimate(chosen, output, quick=not full)
    out = console(stderr=as_json)
    if not as_json:
        many = "entry" if len(chosen) == 1 else "entries"
        out.print(
            f"{len(chosen)} {many}, {total:,} cells, {total - missing:,} known before; the rest takes about "
            f"{duration(seconds / workers)} with {workers} {'process' if workers == 1 else 'processes'}.",
            markup=False,
        )
    began = time.monotonic()
    with display(enabled=not as_json) as draw:
        made = run(
            chosen,
            output,
            executor,
            quick=not full,
            retry=retry_failed,
            progress=Progress(draw=draw),
            done=None if as_json else _say,
        )
    bad = sum(item.record["cells"]["failed"] for item in made)
    if as_json:
        emit_json(
            {
                "output": str(output),
                "mode": "full" if full else "quick",
                "estimated_seconds": seconds / workers,
                "seconds": time.monotonic() - began,
                "entries": [dict(item.record) for item in made],
            }
        )
    else:
        out.print(f"{output}: {len(made)} done in {duration(time.monotonic() - began)}.", markup=False)
        if bad:
            out.print(f"{bad:,} cells have no result; see `rote results {output / 'journal.db'}`.", markup=False)
    if bad:
        raise typer.Exit(1)


def _cores() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(_MOST_JOBS, count))


def _say(made: Reproduced) -> None:
    out = console()
    verdict = made.record["verdict"]
    out.print(f"{made.entry.key}: {verdict}. {made.record['sentence']}", markup=False)
    if made.record["answer"]:
        out.print(f"    {made.record['answer']}", markup=False)


def _list(names: list[str], as_json: bool) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from rote.lab.entries import find_entries
    from rote.lab.entries.cost import seconds

    rows: list[dict[str, Any]] = []
    for entry in find_entries(names):
        times = {mode: seconds(entry.cells(quick=mode == "quick")) for mode in ("quick", "full")}
        rows.append({"entry": entry.key, "title": entry.title, "claim": entry.text("claim"), **times})
    if as_json:
        emit_json({"entries": rows})
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("entry", no_wrap=True)
    table.add_column("what", overflow="fold")
    for mode in ("quick", "full"):
        table.add_column(mode, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(escape(row["entry"]), escape(row["title"]), duration(row["quick"]), duration(row["full"]))
    console().print(table)
    console().print("Times are estimates for one core.", markup=False)
