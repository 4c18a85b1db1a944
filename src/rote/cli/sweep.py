"""`rote sweep`: a grid of cells, every result in one file, nothing done twice."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rote.cli._measuring import AddressOption, DeviceOption, MemoryOption, OnOption, RetryOption, following
from rote.cli._output import JsonOption, emit_json
from rote.cli._render import show

__all__ = ["sweep"]


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The grid of cells.")],
    db: Annotated[Path, typer.Option("--db", metavar="FILE.db", help="Where the results go; made if it is not there.")],
    quick: Annotated[bool, typer.Option("--quick", help="The file's own reduced grid, its [quick] table.")] = False,
    on: OnOption = "local",
    address: AddressOption = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes on this machine.")] = 1,
    retry_failed: RetryOption = False,
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
    from rote.measurement import sweep as run

    with following(enabled=not as_json) as progress:
        swept = run(
            file,
            db,
            quick=quick,
            on=on,
            address=address,
            jobs=jobs,
            retry_failed=retry_failed,
            fail_fast=fail_fast,
            max_memory=max_memory,
            device=device,
            progress=progress,
        )
    if as_json:
        emit_json(swept.to_dict())
    else:
        show(swept.sheet())
    if swept.not_done:
        raise typer.Exit(1)
