"""`plan`: how small a transformer will do, for every construction, without building any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from rote import constructions
from rote.config import Shape, check_dtype
from rote.constructions import AnyConstruction, Construction, NoPlan, Plan
from rote.constructions._base import DENSE
from rote.data.arguments import checked
from rote.data.table import Table
from rote.errors import RoteError, UnknownName, UsageError
from rote.plot.sheet import Grid, Sheet, Shown, duration, gigabytes, megabytes, number
from rote.theorems import Demand

if TYPE_CHECKING:
    pass

__all__ = ["Plans", "plan"]


@dataclass(frozen=True)
class Plans(Shown, Sequence[Plan]):
    """The shapes that would do, smallest first, and why the other constructions have none."""

    demand: Demand
    plans: tuple[Plan, ...]
    refused: tuple[NoPlan, ...]

    @overload
    def __getitem__(self, index: int) -> Plan: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Plan, ...]: ...
    def __getitem__(self, index: int | slice) -> Plan | tuple[Plan, ...]:
        return self.plans[index]

    def __len__(self) -> int:
        return len(self.plans)

    def to_dict(self) -> dict[str, Any]:
        return {"plans": [item.to_dict() for item in self.plans], "refused": [item.to_dict() for item in self.refused]}

    @property
    def _asked(self) -> str:
        demand = self.demand
        tokens = "" if demand.vectors else f"{demand.vocab:,} tokens, "
        what = "vectors" if demand.vectors else ""
        of = f"{tokens}contexts of {demand.context} {what}".rstrip()
        return f"{demand.n_facts:,} facts, {of}, {demand.dtype}"

    def sheet(self) -> Sheet:
        notes = tuple(f"{item.construction}: {item.reason.rstrip('.')}." for item in self.refused)
        others = [f"{item.construction}: {item.counts}" for item in self.plans if item.counts != DENSE]
        counted = f"params: {'; '.join(['dense, all weights of the shape, zeros included', *others])}."
        if not self.plans:
            return Sheet("No construction fits", f" {self._asked}.", notes=notes)
        columns = ("construction", "layers", "heads", "d_model", "d_mlp", "params", "size", "time", "GB")
        rows = []
        for item in self.plans:
            arch = item.architecture
            sizes = (arch.d_model, arch.d_mlp, item.params)
            rows.append(
                (
                    item.construction,
                    number(arch.n_layers),
                    f"{arch.n_heads:,}×{arch.d_head:,}",
                    *(number(size) for size in sizes),
                    megabytes(item.bytes),
                    *(
                        ("–", "–")
                        if item.needs is None
                        else (duration(item.needs.seconds), gigabytes(item.needs.bytes))
                    ),
                )
            )
        said = tuple(f"{item.construction}: {note}." for item in self.plans if (note := self._note(item)))
        taken = "time, GB: what building takes, roughly, on one core and beside Python and torch themselves."
        return Sheet(
            f"Smallest shapes for {self._asked}",
            grids=(Grid(columns, tuple(rows)),),
            notes=(*said, counted, taken, *self._built_by_name, *self._left_out, *notes),
        )

    @property
    def _left_out(self) -> tuple[str, ...]:
        """Where heads do not share the embedding: why, or what that would spare."""
        known, demand = constructions.registry(), self.demand
        own = (one for one in self.plans if one.counts == DENSE and known[one.construction].arch == "rote")
        sharing = [one for one in own if one.architecture.own_rows is None]
        if not sharing:
            return ()
        if demand.both_sides is None:
            spared = (f"{one.construction} {one.architecture.count().unembedding:,}" for one in sharing)
            return (
                "Where no answer stands in a context, the head shares the embedding, which spares "
                f"{', '.join(spared)}.",
            )
        whose = ", ".join(one.construction for one in sharing)
        why = demand.unshared or "the construction makes one of its own"
        return (f"Left out: a head of {whose} that shares the embedding, as {why}.",)

    @property
    def _built_by_name(self) -> tuple[str, ...]:
        """Which of these a build takes by itself, where it does not take all."""
        known = constructions.registry()
        keys = [item.construction for item in self.plans]
        usual = [key for key in keys if known[key].automatic and known[key].arch == "rote"]
        if not usual or len(usual) == len(keys):
            return ()
        return (f"A build takes {', '.join(usual)} by itself; the others by name, or by their architecture.",)

    def _note(self, item: Plan) -> str:
        more = item.facts > self.demand.n_facts
        return "; ".join(filter(None, (f"holds {item.facts:,}" if more else "", item.note)))

    def __repr__(self) -> str:
        best = f"smallest {self.plans[0].construction}, {self.plans[0].params:,} parameters" if self.plans else "none"
        return f"Plans({len(self.plans)} shapes for {self._asked}: {best})"


@checked
def plan(
    data: Table | Demand,
    only: Iterable[str] | None = None,
    *,
    dtype: str | None = None,
    n_heads: int | None = None,
    d_model: int | None = None,
    max_params: int | None = None,
    arch: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Plans:
    """For every construction the smallest shape that holds the facts, sorted by parameters.

    `data` is a table, or a `Demand`, which says how many facts of which kind there would be. `only` names
    constructions, `arch` an architecture; `options` are fields of their records, and leave out constructions that do
    not have them. The number
    format is float32, or what a construction is made for, unless `dtype` says otherwise.
    """
    archs = {one.arch for one in constructions.registry().values()}
    if arch not in (None, *archs):
        raise UnknownName("architecture", str(arch), archs)
    named = None if only is None else [constructions.get(key) for key in only]
    told = options or {}
    if isinstance(data, Demand):
        given = {"dtype": dtype, "n_heads": n_heads, "d_model": d_model, "max_params": max_params}
        changes = {name: value for name, value in given.items() if value is not None}
        demand = replace(data, **changes)  # type: ignore[arg-type]
        answers: list[Plan | NoPlan | None] = [
            _answer(one, demand, told) for one in _planning(named, demand) if {*told} <= {*one.told}
        ]
    elif isinstance(data, Table):
        shape, number_format = Shape(n_heads=n_heads, d_model=d_model), check_dtype(dtype or "float32")
        demand = replace(data.demand(number_format, shape), max_params=max_params)
        answers = [
            _table_answer(one, data, demand, shape, dtype, told, asked=named is not None)
            for one in named or constructions.accepting(data.kind).values()
            if {*told} <= {*one.told}
        ]
    else:
        raise UsageError(
            f"rote.plan needs a table or a Demand, not a {type(data).__name__}; rote.read makes a table of a file."
        )
    if told and not answers:
        what = f"for {data.kind}" if isinstance(data, Table) else "without data; it needs a table"
        raise UsageError(f"no construction has {' and '.join(told)} that plans {what}.")
    built = {key: one for key, one in constructions.registry().items() if arch in (None, one.arch)}
    within = [_within(one, demand.max_params) for one in answers if one is not None and one.construction in built]
    within = [
        replace(one, needs=built[one.construction].needs(demand, one)) if isinstance(one, Plan) else one
        for one in within
    ]
    plans = sorted((a for a in within if isinstance(a, Plan)), key=lambda p: (p.params, p.construction))
    return Plans(demand, tuple(plans), tuple(a for a in within if isinstance(a, NoPlan)))


def _from_demand(construction: AnyConstruction) -> bool:
    """Whether it plans without looking at data."""
    return type(construction).plan is not Construction.plan


def _planning(named: list[AnyConstruction] | None, demand: Demand) -> Iterator[AnyConstruction]:
    """Constructions that plan without data, of the kind that is asked for."""
    if named is not None:
        yield from named
        return
    for one in constructions.registry().values():
        if _from_demand(one) and (not demand.vectors or "vectors" in one.accepts):
            yield one


def _answer(construction: AnyConstruction, demand: Demand, options: Mapping[str, Any]) -> Plan | NoPlan:
    # A value that makes no sense is refused here; that no shape reaches it is an answer.
    record = construction.Options(**options)
    try:
        return construction.plan(construction.asked(demand, record))
    except RoteError as error:
        return NoPlan(construction.key, str(error))


def _table_answer(
    construction: AnyConstruction,
    table: Table,
    demand: Demand,
    shape: Shape,
    dtype: str | None,
    options: Mapping[str, Any],
    *,
    asked: bool,
) -> Plan | NoPlan | None:
    """The plan for a table: that of its demand, or, of a construction that needs the data, the first of its shapes.

    One that `auto` does not try answers only if it was `asked` by name.
    """
    key = construction.key
    if table.kind not in construction.accepts:
        return NoPlan(key, f"it is built from {' or '.join(construction.accepts)}, and these are {table.kind}")
    if _from_demand(construction):
        return _answer(construction, demand, options)
    if not construction.automatic and not asked:
        return None
    record = construction.Options(**options)
    try:
        number_format = construction.check_format(dtype)
        ready = construction.fitting(construction.prepare(table, record), record)
        shapes = construction.shapes(ready, shape, number_format, record)
        return next(shapes, None) or NoPlan(key, "no shape fits")
    except RoteError as error:
        return NoPlan(key, str(error))


def _within(answer: Plan | NoPlan, most: int | None) -> Plan | NoPlan:
    if isinstance(answer, Plan) and most is not None and answer.params > most:
        return NoPlan(answer.construction, f"needs {answer.size}, more than the {most:,} allowed")
    return answer
