"""`bounds`: how much a shape holds, according to every theorem; and `limits`, what a table allows any model to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from rote import constructions, theorems
from rote.config import Architecture, Shape
from rote.constructions import Progress, quiet
from rote.constructions._base import SupportsSheet
from rote.data.arguments import checked
from rote.data.table import Table
from rote.errors import ShapeError, UsageError
from rote.plot.sheet import Grid, Sheet, Shown, number
from rote.theorems import Bound, Fault, Setting, Theorem, UnusableTheorem, condition

if TYPE_CHECKING:
    from rote.assumptions import Finding

__all__ = ["Bounds", "bound", "bounds", "limits"]

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
    chosen, faults = (list(theorems.registry().values()), list(theorems.faults())) if only is None else _named(only)
    findings: Sequence[Finding] = ()
    if table is not None:
        from rote.assumptions import check, checkable

        findings = check(table, d_model=setting.arch.d_model, rng=rng)
        setting = _informed(setting, table, findings)
        if only is None:
            # Theorems about other kinds of data have nothing to say.
            spoken = {key for finding in findings for key in finding.theorems}
            chosen = [one for one in chosen if one.key in spoken or one.key not in checkable()]
    answers = []
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


def _named(keys: Iterable[str]) -> tuple[list[Theorem], list[Fault]]:
    """The theorems of these names; a file that cannot be used is refused where it is the only one."""
    chosen: list[Theorem] = []
    wrong: list[UnusableTheorem] = []
    for key in keys:
        try:
            chosen.append(theorems.get(key))
        except UnusableTheorem as error:
            wrong.append(error)
    if wrong and not chosen:
        raise wrong[0]
    return chosen, [error.fault for error in wrong]


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
