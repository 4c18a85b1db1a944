"""Bounds at many shapes: every theorem at every shape of a grid, as a table, as rows and as a figure.

rote.bounds_frame(n_heads=range(1, 129), d_model=64, context=32, vocab=1000, plot="bounds.svg")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.capacity import Bounds, bounds
from rote.config import Architecture, Shape, check_dtype
from rote.data.arguments import checked
from rote.data.table import Table
from rote.errors import UsageError
from rote.plot import Axis, Figure, Panel, Pictured, Series
from rote.plot.sheet import Grid, Sheet, number
from rote.theorems import Bound, Setting

if TYPE_CHECKING:
    import polars as pl

__all__ = ["SIZES", "BoundsGrid", "along", "bounds_figure", "bounds_frame", "why_not"]

SIZES = ("n_heads", "d_model", "d_head", "context", "vocab", "n_layers", "d_mlp")
_MOST = 100_000
_KINDS = {"lower": "bound_lower", "upper": "bound_upper", "empirical": "reference", "order": "reference"}
"""How a kind of bound is drawn."""


def why_not(bound: Bound) -> str:
    """Why a bound has no number here; empty where it has one."""
    failing = [f"{item.name}: {item.detail}" for item in bound.conditions if item.status == "not met"]
    if failing:
        return "; ".join(failing)
    if bound.facts is None:
        return "an order of magnitude, without constants" if bound.kind == "order" else "something it needs is unknown"
    return ""


def bounds_figure(
    axis: str, scale: str, xs: Sequence[int], lines: Mapping[str, Sequence[Bound]], *, interactive: bool = True
) -> Figure:
    """Every bound along the axis. To be looked into, it also has words at every place, and a panel that says where a
    theorem says nothing, and why."""
    # Lines that coincide are one line with several names.
    groups: dict[tuple[str, tuple[int | None, ...]], list[str]] = {}
    for name, line in lines.items():
        groups.setdefault((line[0].kind, tuple(bound.facts for bound in line)), []).append(name)
    series = []
    for (kind, facts), names in groups.items():
        # A line has a gap where the theorem is silent.
        for speaks, run in groupby(zip(xs, facts, strict=True), key=lambda place: place[1] is not None):
            if speaks:
                x, y = zip(*run, strict=True)
                texts = tuple(f"{kind}: {count:,} facts at {axis} = {at:,}" for at, count in zip(x, y, strict=True))
                series.append(Series(", ".join(names), _KINDS[kind], x, y, texts=texts if interactive else ()))
    panels = [Panel("", Axis(axis, scale), Axis("facts", scale), tuple(series), names="ends")]
    silent = [name for name, line in lines.items() if line[0].kind != "order" and any(map(why_not, line))]
    lanes = [
        (x, row, f"{name} says nothing at {axis} = {x:,}: {why_not(bound)}")
        for row, name in enumerate(reversed(silent))
        for x, bound in zip(xs, lines[name], strict=True)
        if why_not(bound)
    ]
    if lanes and interactive:
        x, y, why = zip(*lanes, strict=True)
        rows = Axis("", names=tuple(reversed(silent)))
        panels.append(Panel("", Axis(axis, scale), rows, (Series("silent", "excluded", x, y, texts=why),)))
    return Figure("Bounds", tuple(panels), alt=f"{len(series)} lines against {axis}")


@dataclass(frozen=True)
class BoundsGrid(Pictured):
    """The bounds at every shape of a grid; `varied` are the sizes that change, the last one the fastest."""

    varied: tuple[str, ...]
    answers: tuple[Bounds, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One row for every theorem at every shape, ready for a table."""
        rows = []
        for answer in self.answers:
            arch = answer.setting.arch
            sizes = {name: getattr(arch, name) for name in SIZES}
            for one in answer:
                known = {"theorem": one.theorem, "kind": one.kind, "facts": one.facts, "params": one.params}
                more = {"bits_per_param": one.bits_per_param, "applies": one.applies, "formula": one.formula}
                rows.append({**sizes, "dtype": answer.setting.dtype, "shape_params": arch.params(), **known, **more})
        return rows

    def frame(self) -> pl.DataFrame:
        """The rows as a polars DataFrame."""
        import polars as pl

        whole = dict.fromkeys((*SIZES, "shape_params", "params"), pl.Int64)
        rows = self.rows()
        # Numbers of facts can be larger than 64 bits hold.
        small = all((row["facts"] or 0) < 2**63 for row in rows)
        types = {**whole, "facts": pl.Int64 if small else pl.Float64, "bits_per_param": pl.Float64}
        return pl.DataFrame(rows, infer_schema_length=None, schema_overrides=types)

    def figure(self) -> Figure:
        """The numbers of facts against the one size that varies."""
        if len(self.varied) != 1:
            raise UsageError(
                f"a figure needs one size that varies, and here {' and '.join(self.varied) or 'none'} does."
            )
        axis = self.varied[0]
        xs = [int(getattr(answer.setting.arch, axis)) for answer in self.answers]
        lines: dict[str, list[Bound]] = {}
        for answer in self.answers:
            for one in answer:
                lines.setdefault(one.theorem, []).append(one)
        whole = {name: line for name, line in lines.items() if len(line) == len(xs)}
        return bounds_figure(axis, "log" if min(xs) > 0 else "linear", xs, whole, interactive=False)

    def sheet(self) -> Sheet:
        """For every shape the largest lower bound and the smallest upper one."""
        columns = (*self.varied, "params", "at least", "by", "at most", "by ")
        rows = []
        for answer in self.answers:
            arch = answer.setting.arch
            lower = [one for one in answer if one.kind == "lower" and one.facts is not None and not one.own_shape]
            upper = [one for one in answer if one.kind == "upper" and one.facts is not None]
            most = max(lower, key=lambda one: one.facts or 0, default=None)
            least = min(upper, key=lambda one: one.facts or 0, default=None)
            said = [part for one in (most, least) for part in _said(one)]
            rows.append((*(number(getattr(arch, name)) for name in self.varied), number(arch.params()), *said))
        faults = dict.fromkeys(str(fault) for answer in self.answers for fault in answer.faults)
        return Sheet(
            f"{len(self.answers):,} shapes", grids=(Grid(columns, tuple(rows), left=("by", "by ")),), notes=(*faults,)
        )


def _said(bound: Bound | None) -> tuple[str, str]:
    return ("–", "") if bound is None else (number(bound.facts), bound.theorem)


def along(
    sizes: Mapping[str, Sequence[int] | None],
    *,
    only: Iterable[str] | None = None,
    table: Table | None = None,
    setting: Mapping[str, Any] | None = None,
) -> BoundsGrid:
    """Every shape that the sizes make, one after the other; heads are as wide as the model where d_head is None.

    `setting` is what else a `Setting` says.
    """
    wanted = None if only is None else list(only)
    given = {name: list(values) for name, values in sizes.items() if values is not None}
    count = 1
    for name, values in given.items():
        if not values:
            raise UsageError(f"{name} has no value; give at least one.")
        count *= len(values)
    if count > _MOST:
        raise UsageError(f"these are {count:,} shapes, and the limit is {_MOST:,}; leave some of them out.")
    answers = []
    for place in product(*given.values()):
        shape = dict(zip(given, place, strict=True))
        arch = Architecture.from_dict({"d_head": shape["d_model"], **shape})
        answers.append(bounds(Setting(arch, **(setting or {})), wanted, table=table))
    return BoundsGrid(tuple(name for name, values in given.items() if len(values) > 1), tuple(answers))


@checked
def bounds_frame(
    table: Table | None = None,
    *,
    n_heads: int | Iterable[int],
    d_model: int | Iterable[int],
    context: int | Iterable[int] | None = None,
    vocab: int | Iterable[int] | None = None,
    d_head: int | Iterable[int] | None = None,
    n_layers: int | Iterable[int] = 1,
    d_mlp: int | Iterable[int] = 0,
    dtype: str = "float32",
    only: Iterable[str] | None = None,
    plot: str | Path | None = None,
) -> pl.DataFrame:
    """The bounds at every shape of a grid as a DataFrame of polars: a row for every theorem at every shape.

    A size is a number or several. A `table` says context and vocabulary, and settles the conditions that data decide.
    `plot` is a file (.svg, .png, .pdf) for a figure of them, where one size varies.
    """
    if table is not None and not isinstance(table, Table):
        raise UsageError(f"bounds_frame needs a table, got a {type(table).__name__}; rote.read makes one of a file.")
    if table is not None and (context is not None or vocab is not None):
        raise UsageError("the table already says its context and vocabulary; leave them out.")
    if table is not None:
        demand = table.demand(check_dtype(dtype), Shape())
        context, vocab = demand.context, demand.vocab
    elif context is None or vocab is None:
        raise UsageError("a shape needs context and vocab; give both, or a table.")
    sizes = {
        "n_heads": n_heads, "d_model": d_model, "d_head": d_head, "context": context, "vocab": vocab,
        "n_layers": n_layers, "d_mlp": d_mlp,
    }  # fmt: skip
    several = {
        name: None if value is None else (value,) if isinstance(value, int) else tuple(value)
        for name, value in sizes.items()
    }
    grid = along(several, only=only, table=table, setting={"dtype": check_dtype(dtype)})
    if plot is not None:
        grid.figure().draw(plot)
    return grid.frame()
