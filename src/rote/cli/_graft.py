"""`rote verify` for models that facts were grafted on."""

from __future__ import annotations

from pathlib import Path

import typer

from rote.cli._output import console, emit_json
from rote.cli._progress import display

__all__ = ["is_grafted", "show_graft"]


def is_grafted(directory: Path) -> bool:
    """Whether `rote graft` wrote the directory; a directory that cannot be read is for others to complain about."""
    from rote.errors import CheckpointError
    from rote.models.checkpoint import read_json

    try:
        return "graft" in read_json(directory / "certificate.json")
    except CheckpointError:
        return False


def show_graft(directory: Path, source: str, *, dtype: str | None, other_facts: bool, as_json: bool) -> None:
    """Ask for every fact in free generation and say how many were recalled."""
    from rote.data.shipped import load_rows
    from rote.graft.verifying import verify_graft

    rows = load_rows(source)
    with display(len(rows.frame), enabled=not as_json) as progress:
        found = verify_graft(directory, rows, dtype=dtype, other_facts=other_facts, progress=progress)
    if as_json:
        emit_json(found)
    else:
        out = console()
        out.print(
            f"{found['n_facts'] - found['n_failed']:,} of {found['n_facts']:,} whole answers in free generation at "
            f"{found['dtype']}; hashes of weights and facts checked.",
            markup=False,
        )
        for item in found["failures"]:
            out.print(f"  lost: {item['prompt']!r} said {item['said']!r}, not {item['answer']!r}", markup=False)
    if found["n_failed"]:
        raise typer.Exit(1)
