"""`rote fit`: a scaling law with error bars, beside what the theorems predict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli._output import JsonOption, console, emit_json, number

if TYPE_CHECKING:
    from rote.analyse.fit import Fit

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
    from rote.measure import Journal
    from rote.measure.where import select

    with Journal(db, write=False) as journal:
        rows = select(list(journal.rows()), where or [])
    found = run(rows, x, y, law=law, saturation=saturation, level=level, seed=seed)
    if figure is not None:
        from rote.analyse.fit.figure import draw

        draw(found, figure)
    if as_json:
        emit_json(found.to_dict())
    else:
        _show(found)


def _show(found: Fit) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    out = console()
    full = [point for point in found.points if point.saturated]
    out.print(
        f"[bold]{escape(found.y)} against {escape(found.x)}[/bold]: {len(found.used)} points"
        + (f", and {len(full)} saturated from {found.x} = {full[0].x:g}" if full else "")
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("law", no_wrap=True)
    table.add_column(f"parameters ({100 * found.level:.3g} % intervals)", overflow="fold")
    table.add_column("CV error", justify="right", no_wrap=True)
    table.add_column("AIC", justify="right", no_wrap=True)
    for curve in found.curves:
        text = "\n".join(
            f"{name} = {value:.4g} ({low:.4g} to {high:.4g})"
            for name, value, (low, high) in zip(curve.law.names, curve.params, curve.intervals, strict=True)
        )
        mark = "[bold green]" if curve is found.chosen else "[default]"
        table.add_row(
            f"{mark}{escape(curve.law.name)}[/]\n[dim]{escape(curve.law.formula)}[/dim]",
            text,
            number(curve.cv),
            number(curve.aic),
        )
    out.print(table)
    out.print(f"Chosen: [bold]{found.chosen.law.name}[/bold], {escape(found.why)}.")
    if found.verdict:
        out.print(f"Is it linear? {found.verdict[0].upper()}{found.verdict[1:]}.", markup=False)
    if not found.predictions:
        return
    other = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    other.add_column("theorem", overflow="fold")
    other.add_column("kind")
    other.add_column("predicted slope", justify="right")
    other.add_column("measured/predicted", justify="right")
    for item in found.predictions:
        other.add_row(escape(item.theorem), item.kind, number(float(item.slope)), number(item.ratio))
    out.print(other)
