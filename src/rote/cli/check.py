"""`rote check`: do data meet the theorems' assumptions?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rote.cli._gather import gather, source_options
from rote.cli._output import JsonOption, emit_json
from rote.cli._render import show
from rote.cli._source import read
from rote.data.reading import Choices
from rote.errors import UsageError

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
    choices: Choices,
    as_json: JsonOption = False,
) -> None:
    """Hold data against the assumptions of the theorems, and say which theorems may be used.

    TENSORS holds `queries` (T x d) and `contexts` (T x n x d, or n x d when shared); targets are not needed. With
    `values` (T x d_v) the margin of a sum of outer products is computed too. A verdict is given only where it is shown.
    Exit code 1: an assumption of the theorem named by --with fails, or it is about other data.

    Examples:

        $ rote check countries

        $ rote check vectors.safetensors --with mahdavi2024_thm1 --json
    """
    from rote import assumptions

    data: Any
    if source.endswith(".safetensors"):
        if choices.named:
            raise UsageError("vectors have no columns or tokens; leave out how FACTS is read.")
        # Targets are not needed here, so a file without them will do.
        data = assumptions.read_vectors(source)
    else:
        data = read(source, choices)
    findings = assumptions.check(data, d_model=d_model, only=with_, rng=seed)
    if as_json:
        emit_json(findings.to_dict()["findings"])
    else:
        show(findings.sheet())
    if with_ is not None and not findings.passed:
        raise typer.Exit(1)
