"""The two questions that need no build: `bounds` (how much does a shape hold?) and `plan` (how small will do?)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from rote import constructions, theorems
from rote.config import Architecture, Shape, check_dtype
from rote.constructions import AnyConstruction, Construction, NoPlan, Plan, Progress, quiet
from rote.constructions._base import DENSE, SupportsSheet
from rote.data.arguments import checked
from rote.data.table import Table
from rote.errors import RoteError, ShapeError, UnknownName, UsageError
from rote.plot.sheet import Grid, Sheet, Shown, duration, gigabytes, megabytes, number
from rote.theorems import Bound, Demand, Fault, Setting, Theorem, condition

if TYPE_CHECKING:
    from rote.assumptions import Finding

__all__ = ["Bounds", "Plans", "bound", "bounds", "limits", "plan"]

_HEADINGS = {
    "lower": "lower: this much fits",
    "upper": "upper: more never fits",
    "order": "orders of magnitude",
    "empirical": "measured, no theorem",
}
_BRIEF = {"lower": ("at least", 4), "upper": ("at most", 2), "empirical": ("measured", 5)}
"""In brief: what a number means, and how many of them are shown."""


@dataclass(frozen=True)
class Bounds(Shown, Sequence[Bound]):
    """What theorems say about one setting: lower, upper, orders, measured constants; larger numbers first."""

    setting: Setting
    bounds: tuple[Bound, ...]
    faults: tuple[Fault, ...] = ()
    """Theorems that could not be asked, each with the place of the mistake."""
    data: str = ""
    """The table that settled conditions, in a few words."""
    named: bool = False
    """The theorems were asked for by name, so all that they say is shown."""

    @overload
    def __getitem__(self, index: int) -> Bound: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Bound, ...]: ...
    def __getitem__(self, index: int | slice) -> Bound | tuple[Bound, ...]:
        return self.bounds[index]

    def __len__(self) -> int:
        return len(self.bounds)

    def to_dict(self) -> dict[str, Any]:
        shape = {"shape": self.setting.arch.to_dict(), "dtype": self.setting.dtype}
        answers = {"bounds": [item.to_dict() for item in self.bounds]}
        return {**shape, **answers, **({"faults": [one.to_dict() for one in self.faults]} if self.faults else {})}

    def sheet(self, full: bool | None = None) -> Sheet:
        """What matters first, on a screen; in `full` every theorem with its formula and its conditions."""
        arch, parts = self.setting.arch, self.setting.arch.count("full")
        lines = (
            f"{parts.total:,} dense parameters in {self.setting.dtype}: embedding {parts.embedding:,}, positions "
            f"{parts.positions:,}, attention {parts.attention:,}, MLP {parts.mlp:,}, unembedding "
            f"{parts.unembedding:,}",
            *([f"{self.data}: {self.verdict()}"] if self.data else []),
        )
        whole = self.named if full is None else full
        grids, notes = self._in_full() if whole else self._in_brief()
        return Sheet(
            f"{arch.n_layers} layer{'s' if arch.n_layers > 1 else ''}, {arch.n_heads} "
            f"head{'s' if arch.n_heads > 1 else ''} of width {arch.d_head}, d_model {arch.d_model}, "
            f"d_mlp {arch.d_mlp}, context {arch.context}, vocabulary {arch.vocab:,}",
            lines=lines,
            grids=tuple(grid for grid in grids if grid.rows),
            notes=(*notes, *(str(fault) for fault in self.faults)),
        )

    def _in_full(self) -> tuple[list[Grid], list[str]]:
        columns = ("theorem", "facts", "params", "bits/param", "conditions")
        grids = [
            Grid(columns, tuple(item.row() for item in self.bounds if item.kind == kind), heading, ("conditions",))
            for kind, heading in _HEADINGS.items()
        ]
        return grids, ["?  depends on the data   ✗  fails, so the theorem is silent here   –  no number"]

    def _in_brief(self) -> tuple[list[Grid], list[str]]:
        """The largest lower bounds, the smallest upper ones and what was measured; equal numbers on one line."""
        columns = ("", "facts", "theorem", "if")
        rows: list[tuple[str, ...]] = []
        for kind, (words, most) in _BRIEF.items():
            of = [item for item in self.bounds if item.kind == kind and item.facts is not None]
            numbers = sorted({item.facts for item in of if item.facts is not None}, reverse=kind != "upper")
            for place, facts in enumerate(numbers[:most]):
                equal = [item for item in of if item.facts == facts]
                first = min(equal, key=lambda item: len(item.open))
                more = f" and {len(equal) - 1} more" if len(equal) > 1 else ""
                rows.append(
                    (words if place == 0 else "", number(facts), f"{first.theorem}{more}", ", ".join(first.open))
                )
        silent = sum(item.facts is None and item.kind != "order" for item in self.bounds)
        orders = sum(item.kind == "order" for item in self.bounds)
        notes = [f"{silent} theorems are silent here, {orders} know an order of magnitude only."]
        return [Grid(columns, tuple(rows), left=("theorem", "if"))], notes

    def verdict(self) -> str:
        """Whether the facts in mind fit: for certain, if conditions hold, not at all, or nobody knows."""
        wanted = self.setting.n_facts
        if wanted is None:
            return "no number of facts is in mind"
        about = [one for one in self.bounds if not one.own_shape]
        lower = [one for one in about if one.kind == "lower" and one.facts is not None and one.facts >= wanted]
        upper = [one for one in self.bounds if one.kind == "upper" and one.facts is not None and one.facts < wanted]
        if upper:
            least = min(upper, key=lambda one: one.facts or 0)
            return f"{wanted:,} such facts of any kind do not fit ({least.theorem}: at most {least.facts:,})"
        if lower:
            surest = min(lower, key=lambda one: len(one.open))
            on = f", if {', '.join(surest.open)}" if surest.open else ""
            return f"all {wanted:,} fit ({surest.theorem}: at least {surest.facts:,}{on})"
        most = max((one.facts or 0 for one in about if one.kind == "lower"), default=0)
        return f"no theorem says that {wanted:,} fit (the largest says {most:,}), and none that they do not"

    def __repr__(self) -> str:
        return f"Bounds({len(self.bounds)} theorems about {constructions.words(self.setting.arch)})"


@checked
def bounds(
    shape: Setting | Architecture,
    only: Iterable[str] | None = None,
    *,
    table: Table | None = None,
    rng: int = 0,
) -> Bounds:
    """Every registered bound for a shape, or for a setting, which also says what is known about the data.

    `only` names theorems, by key or by the path of a file. A `table` settles the conditions that can be told from data,
    as `rote.check` finds them. A theorem that makes a mistake is named in `faults`, and the others still answer.
    """
    if not isinstance(shape, (Setting, Architecture)):
        raise UsageError(
            f"rote.bounds is about a shape: give an Architecture or a Setting, not a {type(shape).__name__}; "
            "rote.plan finds shapes for a table."
        )
    if table is not None and not isinstance(table, Table):
        raise UsageError(f"rote.bounds needs a table, got a {type(table).__name__}; rote.read makes one of a file.")
    setting = Setting(shape) if isinstance(shape, Architecture) else shape
    chosen = list(theorems.registry().values()) if only is None else [theorems.get(key) for key in only]
    findings: Sequence[Finding] = ()
    if table is not None:
        from rote.assumptions import check, checkable

        findings = check(table, d_model=setting.arch.d_model, rng=rng)
        setting = _informed(setting, table, findings)
        if only is None:
            # Theorems about other kinds of data have nothing to say.
            spoken = {key for finding in findings for key in finding.theorems}
            chosen = [one for one in chosen if one.key in spoken or one.key not in checkable()]
    faults, answers = list(theorems.faults() if only is None else ()), []
    for theorem in chosen:
        answer = _asked(theorem, setting)
        if isinstance(answer, Fault):
            faults.append(answer)
        else:
            answers.append(_settled(answer, findings))
    if faults and not answers:
        raise UsageError(" ".join(str(fault) for fault in faults))
    kinds = list(_HEADINGS)
    answers.sort(key=lambda b: (kinds.index(b.kind), b.facts is None, b.own_shape, -(b.facts or 0), b.theorem))
    data = "" if table is None else f"{table.name}, {table.n_facts:,} {table.noun}"
    return Bounds(setting, tuple(answers), tuple(faults), data, only is not None)


def _asked(theorem: Theorem, setting: Setting) -> Bound | Fault:
    """What a theorem says, or where its author went wrong."""
    try:
        answer: object = theorem.bound(setting)
        if not isinstance(answer, Bound):
            raise TypeError(f"bound returned {type(answer).__name__}, and not a Bound")
        if answer.kind not in _HEADINGS:
            raise ValueError(f"its kind is {answer.kind!r}, and not one of {', '.join(_HEADINGS)}")
    except Exception as error:  # whatever an author's code does
        return Fault.in_theorem(theorem, error)
    return answer


def _informed(setting: Setting, table: Table, findings: Sequence[Finding]) -> Setting:
    """The setting with what the data tell, unless it says so already."""
    demand = table.demand(setting.dtype, Shape(d_model=setting.arch.d_model))
    for name, held, given in (
        ("context", demand.context, setting.arch.context),
        ("vocab", demand.vocab, setting.arch.vocab),
    ):
        if held != given:
            raise ShapeError(f"{table.name} has {name} {held:,}, the shape says {given:,}; make them equal.")
    rank = next((one.lower for one in findings if one.assumption == "Kruskal rank of queries"), None)
    return replace(
        setting,
        shared_context=setting.shared_context or demand.shared_context,
        kruskal=setting.kruskal or (None if not rank else min(int(rank), setting.arch.d_model)),
        distinct_last=setting.distinct_last or demand.distinct_last,
        n_facts=setting.n_facts or table.n_facts,
    )


def _settled(bound: Bound, findings: Sequence[Finding]) -> Bound:
    """The bound with its open conditions as the data have them; one that fails withholds the number."""
    known = {one.assumption: one for one in findings if bound.theorem in one.theorems}
    conditions = tuple(
        condition(one.name, known[one.name].holds, known[one.name].explanation)
        if one.status == "unknown" and one.name in known
        else one
        for one in bound.conditions
    )
    fails = any(one.status == "not met" for one in conditions)
    return replace(bound, conditions=conditions, facts=None if fails else bound.facts)


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
        """What a head that shares the embedding would spare, which no model of rote's own has."""
        known = constructions.registry()
        apart = [one for one in self.plans if one.counts == DENSE and known[one.construction].arch == "rote"]
        spared = [f"{one.construction} {one.architecture.count('full').unembedding:,}" for one in apart]
        if not spared:
            return ()
        return (
            f"Left out: a head that shares the embedding. It would spare {', '.join(spared)}, where no answer stands "
            "in a context.",
        )

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


def limits(
    table: Table, shape: Shape, options: Mapping[str, Any], *, rng: int = 0, progress: Progress = quiet
) -> SupportsSheet | None:
    """What a table allows any model to do, where that is not a number of facts: the first construction's answer."""
    for one in constructions.accepting(table.kind).values():
        record = one.Options(**{name: value for name, value in options.items() if name in one.told})
        answer = one.limits(table, shape, record, rng=rng, progress=progress)
        if answer is not None:
            return answer
    return None


bound = bounds
"""The verb's name."""
