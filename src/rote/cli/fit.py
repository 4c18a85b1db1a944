"""`rote fit`: a scaling law with error bars, beside what the theorems predict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rote.cli._output import JsonOption, emit_json
from rote.cli._render import show

__all__ = ["fit"]


def fit(
    db: Annotated[Path, typer.Argument(metavar="DB", help="The file that `rote sweep --db` wrote.")],
    x: Annotated[str, typer.Option(help="Column along which it grows, such as n_heads.")],
    y: Annotated[str, typer.Option(help="Column that grows: capacity, share or published.")],
    law: Annotated[str, typer.Option(help="linear, power, quadratic or auto.")] = "auto",
    where: Annotated[
        list[str] | None, typer.Option("--where", help="Only rows with, as in d_model=10; may be repeated.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the points, the law and the bounds into a .png, .svg or .pdf file.")
    ] = None,
    saturation: Annotated[float, typer.Option(help="A share of facts from which a point is saturated.")] = 0.95,
    level: Annotated[float, typer.Option(help="Coverage of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Fit a law to the results of a sweep: weighted, saturated points left out, intervals by the bootstrap.

    Example:

        $ rote fit heads.db --x n_heads --y capacity --figure heads.png
    """
    from rote.analyse.fit import fit as run

    fitted = run(db, x, y, law=law, where=where or [], saturation=saturation, level=level, seed=seed)
    if figure is not None:
        fitted.figure().draw(figure)
    if as_json:
        emit_json(fitted.to_dict())
    else:
        show(fitted.sheet())
