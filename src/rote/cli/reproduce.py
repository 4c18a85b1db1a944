"""`rote reproduce`: the figures of the papers, measured again, beside what was published."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from rote.cli._measuring import AddressOption, DeviceOption, MemoryOption, OnOption, RetryOption, following
from rote.cli._output import JsonOption, console, emit_json
from rote.cli._render import show

__all__ = ["reproduce"]


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
    on: OnOption = "local",
    address: AddressOption = None,
    retry_failed: RetryOption = False,
    max_memory: MemoryOption = None,
    device: DeviceOption = "cpu",
    no_run: Annotated[
        bool,
        typer.Option("--no-run", help="Run nothing: write entries from the cells that are there, name the others."),
    ] = False,
    kept: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Take cells that DIR/ENTRY/cells.csv has, such as docs/results."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run entries, draw their figures beside the published points, and decide their claims by the tests in them.

    Without --full the quick grids are run. Interrupt it at any time: the same command goes on where it was.

    Exit code 1: some cell failed or diverged. A claim that does not hold is a result, not a failure.

    Example:

        $ rote reproduce dana2025/exp1 --quick -o reproduced
    """
    from rote.errors import UsageError
    from rote.lab.entries import catalogue, estimate, find_entries, take_over
    from rote.lab.entries import reproduce as run
    from rote.measurement.machine import cores, duration

    if listed:
        entries = catalogue(names or "all")
        emit_json(entries.to_dict()) if as_json else show(entries.sheet())
        return
    if quick and full:
        raise UsageError("choose --quick or --full, and not both.")
    if not names:
        raise UsageError("name an entry, such as dana2025/exp1, or all; `rote reproduce --list` shows them.")
    workers = jobs or cores()
    chosen = find_entries(names)
    if kept is not None:
        take_over(chosen, output, kept, quick=not full)
    total, missing, seconds = estimate(chosen, output, quick=not full)
    out = console(stderr=as_json)
    if not as_json and not no_run:
        many = "entry" if len(chosen) == 1 else "entries"
        out.print(
            f"{len(chosen)} {many}, {total:,} cells, {total - missing:,} known before; the rest takes about "
            f"{duration(seconds / workers)} with {workers} {'process' if workers == 1 else 'processes'}.",
            markup=False,
        )
    began = time.monotonic()
    with following(enabled=not as_json) as progress:
        reproduced = run(
            names,
            output,
            full=full,
            jobs=workers,
            on=on,
            address=address,
            retry_failed=retry_failed,
            max_memory=max_memory,
            device=device,
            run=not no_run,
            kept=kept if no_run else None,
            progress=progress,
            done=None if as_json else lambda entry: show(entry.sheet()),
        )
    bad = sum(item.record["cells"]["failed"] for item in reproduced)
    if as_json:
        emit_json(
            {
                "output": str(output),
                "mode": "full" if full else "quick",
                "estimated_seconds": seconds / workers,
                "seconds": time.monotonic() - began,
                "entries": [dict(item.record) for item in reproduced],
            }
        )
    else:
        out.print(f"{output}: {len(reproduced)} done in {duration(time.monotonic() - began)}.", markup=False)
        if bad:
            out.print(f"{bad:,} cells have no result; see `rote results {output / 'journal.db'}`.", markup=False)
    if bad:
        raise typer.Exit(1)
