"""`rote verify`: does what is on disk recall every fact?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rote.cli._gather import gather, source_options
from rote.cli._output import JsonOption, console, emit_json
from rote.cli._progress import display
from rote.cli._render import show
from rote.data.reading import Choices

__all__ = ["verify"]


@gather(choices=source_options(conflict=None))
def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model directory.")],
    source: Annotated[
        str | None, typer.Argument(metavar="[FACTS]", help="The facts it was built from; found again if not given.")
    ] = None,
    *,
    dtype: Annotated[
        str | None, typer.Option(help="float64, float32, bfloat16, float16 or exact; as stored if not given.")
    ] = None,
    other_facts: Annotated[
        bool, typer.Option("--other-facts", help="Check facts that are not the ones of the certificate.")
    ] = False,
    choices: Choices,
    as_json: JsonOption = False,
) -> None:
    """Reload a model directory, check its hashes, and run every fact through a forward pass of the referee's own.

    The facts and how they are read (columns, tokens) are taken from the certificate unless given. Exit code 1: some
    fact is lost, or a model of distributions is farther off than its certificate says.

    Examples:

        $ rote verify countries-model

        $ rote verify countries-model countries --dtype bfloat16
    """
    from rote import pipeline

    memory = pipeline.load(directory)
    table = memory.table(source, choices)
    with display(table.n_facts, enabled=not as_json) as progress:
        result = pipeline.verify(memory, table, dtype=dtype, other_facts=other_facts, progress=progress)
    same = memory.certificate.refers_to(memory.prepared(table))
    confirmed = result.confirms(memory.certificate) if same else result.passed
    if as_json:
        emit_json({**result.to_dict(), "confirmed": confirmed})
    else:
        show(result.sheet())
        remark = result.remark(memory.certificate) if same else ""
        if remark:
            console().print(remark, markup=False)
        checked = "Hashes of files and facts checked." if same else "Hashes of files checked; these are other facts."
        console().print(checked, style="dim")
        if not confirmed and result.passed:
            console().print("The certificate promises more than this.")
    if not confirmed:
        raise typer.Exit(1)
