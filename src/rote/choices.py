"""What to try, and in which order: the constructions that take a table, and their shapes, smallest first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rote import constructions
from rote.config import Shape
from rote.constructions import AnyConstruction, Options, Plan, words
from rote.data.table import Table
from rote.errors import CapacityError, RoteError, UnknownName, UsageError
from rote.memory import Memory
from rote.memory_budget import out_of_memory

__all__ = [
    "Choice",
    "Refused",
    "best_or_refusal",
    "choose",
    "fitting_tables",
    "reason",
    "smallest_first",
    "with_reason",
]


@dataclass(frozen=True)
class Choice:
    """A construction with its options, and the table as it builds it."""

    construction: AnyConstruction
    options: Options
    table: Table


@dataclass(frozen=True)
class Refused:
    """An attempt that was not handed over, and why; `memory` is what it built, if it got that far."""

    reason: str
    error: RoteError | None = None
    memory: Memory | None = None
    recall: float | None = None
    """The share of the facts that it recalled, if it got that far."""
    plan: Plan | None = None
    """What it would have been, where it was not begun for want of memory or time."""


def choose(
    table: Table,
    with_: str | Options,
    options: Mapping[str, Any],
    shape: Shape,
    arch: str | None = None,
    dtype: str | None = None,
) -> list[Choice]:
    """The constructions to try, each with its options; what does not go together is refused."""
    known = constructions.registry()
    if not isinstance(with_, (str, Options)):
        raise UsageError(f"with_ is a construction's key, its Options record, or auto, not a {type(with_).__name__}.")
    if isinstance(with_, Options):
        named = next((one for one in known.values() if one.Options is type(with_)), None)
        if named is None or options:
            why = "is the record of no construction" if named is None else "has the options already; give them there"
            raise UsageError(f"{type(with_).__name__} {why}.")
        return [_fitting(named, with_, table, shape, arch)]
    if with_ != "auto":
        if with_ not in known:
            raise _no_construction(with_)
        return [_fitting(known[with_], _record(known[with_], options), table, shape, arch)]
    wanted = arch or "rote"
    if wanted not in {one.arch for one in known.values()}:
        raise UnknownName("architecture", wanted, {one.arch for one in known.values()})
    able = [one for one in known.values() if one.arch == wanted and one.automatic and table.kind in one.accepts]
    if not able:
        others = [key for key, one in known.items() if table.kind in one.accepts and arch in (None, one.arch)]
        advice = f"name one of {', '.join(others)}" if others else "leave the architecture open, or bring another table"
        raise UsageError(f"no construction of the architecture {wanted} takes {table.kind} by itself; {advice}.")
    fields = {*options, *shape.given}
    chosen = [one for one in able if all(name in one.told for name in fields)]
    if not chosen:
        raise UsageError(_clash(sorted(fields), able, "auto"))
    if dtype is not None:
        chosen = [one for one in chosen if dtype in one.dtypes] or chosen[:1]
    return [_choice(one, _record(one, options), table) for one in chosen]


def _choice(construction: AnyConstruction, options: Options, table: Table) -> Choice:
    return Choice(construction, options, construction.prepare(table, options))


def _no_construction(name: str) -> RoteError:
    from rote import theorems

    known = constructions.registry()
    if name in theorems.registry():
        return UsageError(f"{name} is a bound without a construction; choose one of {', '.join(known)}, or auto.")
    return UnknownName("construction", name, [*known, "auto"])


def _record(construction: AnyConstruction, options: Mapping[str, Any]) -> Options:
    wrong = [name for name in options if name not in construction.Options.__dataclass_fields__]
    if wrong:
        raise UsageError(_clash(wrong, [construction], construction.key))
    return construction.Options(**options)


def _clash(names: list[str], able: list[AnyConstruction], with_: str) -> str:
    """The sentence for an option that belongs to other constructions."""
    owners = [key for key, one in constructions.registry().items() if all(name in one.told for name in names)]
    said = " and ".join(names)
    whose = f"it belongs to {', '.join(owners)}" if owners else "no construction has it"
    mine = sorted({name for one in able for name in one.told})
    takes = f"; {with_} takes {', '.join(mine)}" if mine else f"; {with_} has no options"
    return f"{said} {'is' if len(names) == 1 else 'are'} not for {with_}: {whose}{takes}."


def _fitting(construction: AnyConstruction, options: Options, table: Table, shape: Shape, arch: str | None) -> Choice:
    """A named construction, if it takes the table, the shape and the architecture."""
    key = construction.key
    if table.kind not in construction.accepts:
        takers = [k for k, one in constructions.registry().items() if table.kind in one.accepts]
        raise UsageError(
            f"{key} builds from {' or '.join(construction.accepts)}, and this is a table of {table.kind}; for it "
            f"choose one of {', '.join(takers) or 'none'}."
        )
    if arch not in (None, construction.arch):
        raise UsageError(f"{key} builds a model of the architecture {construction.arch}, not {arch}; leave one out.")
    beyond = [name for name in shape.given if name not in construction.told]
    if beyond:
        raise UsageError(
            f"{key} finds its own {' and '.join(beyond)}; leave {'it' if len(beyond) == 1 else 'them'} out."
        )
    return _choice(construction, options, table)


def fitting_tables(chosen: list[Choice], drop: bool, attempts: list[Refused]) -> list[Choice]:
    """The constructions that hold the whole table, or, where facts may be dropped, those that drop the fewest."""
    ready = []
    for choice in chosen:
        try:
            fits = choice.construction.fitting(choice.table, choice.options, drop=drop)
        except RoteError as error:
            if len(chosen) == 1:
                raise
            attempts.append(Refused(reason(choice.construction, error), error))
            continue
        except (MemoryError, RuntimeError) as error:
            if len(chosen) == 1 or not out_of_memory(error):
                raise
            attempts.append(Refused(f"{choice.construction.key} ran out of memory"))
            continue
        ready.append(replace(choice, table=fits))
    fewest = min((len(choice.table.left_out) for choice in ready), default=0)
    return [choice for choice in ready if len(choice.table.left_out) == fewest]


def smallest_first(
    chosen: list[Choice], shape: Shape, dtype: str | None, attempts: list[Refused]
) -> Iterator[tuple[Choice, Plan]]:
    """Constructions with shapes, fewest parameters first."""
    queue: list[tuple[int, int, Plan, Iterator[Plan]]] = []

    def push(i: int, shapes: Iterator[Plan]) -> None:
        try:
            plan = next(shapes, None)
        except RoteError as error:
            if len(chosen) == 1:
                raise
            attempts.append(Refused(reason(chosen[i].construction, error), error))
            return
        except (MemoryError, RuntimeError) as error:
            if len(chosen) == 1 or not out_of_memory(error):
                raise
            attempts.append(Refused(f"{chosen[i].construction.key} ran out of memory"))
            return
        if plan is not None:
            heapq.heappush(queue, (plan.params, i, plan, shapes))

    for i, choice in enumerate(chosen):
        number = choice.construction.check_format(dtype)
        push(i, choice.construction.shapes(choice.table, shape, number, choice.options))
    while queue:
        _, i, plan, shapes = heapq.heappop(queue)
        yield chosen[i], plan
        push(i, shapes)


def reason(construction: AnyConstruction, error: RoteError) -> str:
    """Why not, with the name of the construction in front."""
    said, key = str(error), construction.key
    return said if said.startswith(key) else f"{key}: {said}"


def _passed_over(
    table: Table, params: int, attempts: list[Refused], arch: str | None, dtype: str | None, *, free: bool
) -> list[str]:
    """What `auto` did not try though it would be smaller than what it found: the smallest of each construction, with
    the reason.

    That is what takes too much memory or time, and, where the architecture was not asked for and everything else was
    left open (`free`), what other architectures plan.
    """
    over: dict[str, str] = {}
    for attempt in attempts:
        plan = attempt.plan
        if plan is not None and plan.params < params:
            why = attempt.reason.removeprefix(f"{plan.construction} with {words(plan.architecture)} ").partition(";")[0]
            over.setdefault(plan.construction, f"{plan.construction}, {plan.params:,} dense parameters ({why})")
    said = list(over.values())
    for one in constructions.registry().values() if free and arch is None else ():
        if one.arch == "rote" or not one.automatic or table.kind not in one.accepts:
            continue
        try:
            number = one.check_format(dtype)
            options = one.Options()
            ready = one.fitting(one.prepare(table, options), options)
            planned = next(one.shapes(ready, Shape(), number, options), None)
        except (RoteError, MemoryError):
            continue
        if planned is not None and planned.params < params:
            said.append(f"{one.key}, {planned.params:,} dense parameters by its plan (--arch {one.arch})")
    return said


def with_reason(
    memory: Memory,
    plan: Plan,
    attempts: list[Refused],
    table: Table,
    arch: str | None,
    dtype: str | None,
    *,
    free: bool,
) -> Memory:
    """The memory with a certificate that tells why it is this one, and what smaller ones were not tried."""
    first = f"{plan.construction} with {words(memory.model.arch)}: the smallest shape tried that recalls everything"
    chosen = "; ".join([first, *(one.reason for one in attempts)])
    certificate = memory.certificate.replace(chosen=chosen)
    over = _passed_over(table, certificate.params, attempts, arch, dtype, free=free)
    if over:
        certificate = certificate.replace(claims={**certificate.claims, "passed_over": over})
    return replace(memory, certificate=certificate)


def best_or_refusal(table: Table, attempts: list[Refused], partial: bool) -> Memory:
    """The best model of all that lose facts, if such is wanted; otherwise what stood in the way."""
    lossy = [one.memory for one in attempts if one.memory is not None]
    if lossy and partial:
        return max(lossy, key=lambda memory: memory.certificate.recall[memory.certificate.dtype])
    # Reasons begin with the name of their construction: one that all of them have is told once.
    if not lossy and len({one.reason.partition(" ")[2] for one in attempts}) == 1 and attempts[0].error is not None:
        raise attempts[0].error
    last = attempts[-4:]
    tried = "; ".join(one.reason.partition("; allow more")[0].rstrip(".") for one in last)
    put_off = bool(last) and all(one.plan is not None for one in last)
    advice = "Allow more memory or time" if put_off else "Allow more heads or a larger d_model"
    raise CapacityError(
        f"no shape recalled all {table.n_facts:,} {table.noun}: {tried}. {advice}, or ask for a partial model "
        "to keep the best one."
    )
