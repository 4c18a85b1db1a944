"""`rote check`: do data meet the theorems' assumptions?"""

from __future__ import annotations

from typing import Annotated

import typer

from rote.cli._gather import gather, source_options
from rote.cli._output import JsonOption, emit_json
from rote.cli._render import show
from rote.cli._source import read

__all__ = ["check"]


@gather(choices=source_options())
def check(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FACTS|TENSORS",
            help="Facts file, shipped facts, or a .safetensors file with `queries` and `contexts`.",
        ),
    ],
    *,
    with_: Annotated[
        str | None, typer.Option("--with", metavar="THEOREM", help="Only what this theorem rests on.")
    ] = None,
    d_model: Annotated[int | None, typer.Option(min=1, help="Width that facts are held against.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed samples the same subsets.")] = 0,
    choices: Choices,  # noqa: F821  (replaced by its options)
    as_json: JsonOption = False,
) -> None:
    """Hold data against the assumptions of the theorems, and say which theorems may be used.

    TENSORS holds `queries` (T x d) and `contexts` (T x n x d, or n x d when shared); targets are not needed. A verdict
    is given only where it is shown. Exit code 1: an assumption of the theorem named by --with fails, or it is about
    other data.

    Examples:

        $ rote check countries

        $ rote check vectors.safetensors --with mahdavi2024_thm1 --json
    """
    from rote import assumptions

    findings = assumptions.check_source(source, lambda: read(source, choices), choices, d_model=d_model, only=with_, rng=seed)
    emit_json(findings.to_dict()) if as_json else show(findings.sheet())
    if findings.refused:
        raise typer.Exit(1)
