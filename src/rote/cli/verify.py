"""`rote verify`: does what is on disk recall every fact?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli._gather import gather, source_options
from rote.cli._output import JsonOption, console, emit_json
from rote.cli._progress import display
from rote.cli._render import show
from rote.data.reading import Choices

if TYPE_CHECKING:
    from rote.data.verification import Verification

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
    all_formats: Annotated[
        bool, typer.Option("--all-formats", help="Run the model in all formats that its certificate lists.")
    ] = False,
    choices: Choices,
    as_json: JsonOption = False,
) -> None:
    """Reload a model directory, check its hashes, run every fact through the referee, and compare the claims.

    The facts and how they are read (columns, tokens) are taken from the certificate unless given. Exit code 1: some
    fact is lost, a model of distributions is farther off than its certificate says, or another claim of the certificate
    is not what was found.

    Examples:

        $ rote verify countries-model

        $ rote verify countries-model countries --dtype bfloat16
    """
    from rote import pipeline

    memory = pipeline.load(directory)
    table = memory.table(source, choices)
    with display(table.n_facts, enabled=not as_json) as progress:
        result = pipeline.verify(
            memory, table, dtype=dtype, other_facts=other_facts, all_formats=all_formats, progress=progress
        )
    same = memory.certificate.refers_to(memory.prepared(table))
    confirmed = result.confirms(memory.certificate) if same else result.passed and not result.contradicted
    if as_json:
        emit_json({**result.to_dict(), "confirmed": confirmed})
    else:
        show(result.sheet())
        for other in result.others:
            show(replace(other.sheet(), lines=()))
        remark = result.remark(memory.certificate) if same else ""
        if remark:
            console().print(remark, markup=False)
        checked = "Hashes of files and facts checked." if same else "Hashes of files checked; these are other facts."
        console().print(f"{checked}\n{_on_claims(result)}", style="dim")
        for contradiction in result.contradicted:
            console().print(f"The certificate is wrong: {contradiction}.", markup=False)
        if not confirmed and result.passed and not result.contradicted:
            console().print("The certificate promises more than this.")
    if not confirmed:
        raise typer.Exit(1)


def _on_claims(result: Verification) -> str:
    """How many claims of the certificate hold, and how many were not checked."""
    later = sum("." in name for name in result.unchecked)
    return (
        f"{len(result.checked) - len(result.contradicted)} claims of the certificate hold"
        + (f", {later} are for --all-formats" if later else "")
        + f", {len(result.unchecked) - later} cannot be measured again."
    )
