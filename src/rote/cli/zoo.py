"""`rote zoo`: models of known content, each with its card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rote.cli._output import JsonOption, console, emit_json

__all__ = ["zoo"]


def zoo(
    directory: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="Where they go.")] = None,
    *,
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this one. May be repeated.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Build anew what is there already.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Build a dozen models of known content, each with certificate and card; without DIR, list them.

    Every construction, own and stock, from a hundred facts to a hundred thousand. What is there already is kept.

    Examples:

        $ rote zoo

        $ rote zoo models --only elements --only random-100
    """
    from rote.exhibits import EXHIBITS, Exhibit, counted
    from rote.exhibits import zoo as build

    if directory is None:
        if as_json:
            emit_json([{"name": one.name, "about": one.about, "construction": one.construction} for one in EXHIBITS])
            return
        for one in EXHIBITS:
            console().print(f"{one.name:24}{one.about} ({one.construction})", markup=False)
        return
    records: list[dict[str, Any]] = []

    def told(exhibit: Exhibit, memory: Any) -> None:
        said = memory.certificate
        records.append({"name": exhibit.name, "facts": said.facts, "params": said.params, "passed": said.passed})
        if not as_json:
            console().print(f"{memory.folder}: {said.facts:,} facts, {counted(said)}", markup=False)

    build(directory, only=tuple(only or ()), force=force, told=told)
    if as_json:
        emit_json(records)
