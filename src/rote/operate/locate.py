"""`locate`: which weights carry a fact, and which facts depend on a weight.

Where a construction keeps facts apart, it knows the answer, and the answer is exact. Everywhere else facts share their
weights, and what can be said is measured: parts of the model (heads, units, rows) are set to zero, one at a time, and
facts are run again.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rote import constructions
from rote.constructions._operations import Search
from rote.data.arguments import checked
from rote.errors import CheckpointError, UnknownName, UsageError
from rote.memory import Memory
from rote.plot.sheet import Grid, Sheet, Shown, number, visible

if TYPE_CHECKING:
    from rote.data.table import Table
    from rote.models import Model

__all__ = ["Dependents", "LocatedPart", "Location", "dependents", "locate", "located", "row_of"]

MOST_FACTS = 2000
"""Facts that are run without a part; a sample of them where there are more."""
MOST_PARTS = 16
SHOWN = 10


@dataclass(frozen=True)
class LocatedPart:
    """A part of the model, and what it is to a fact."""

    name: str
    weights: str
    """Which weights it is, as `locate` takes them: `W_O[3]`."""
    lead: float | None
    """Its part of the lead of the answer; None where leads are no sums."""
    needed: bool
    """Whether the fact is lost without it."""
    others_lost: float
    """The share of the other facts that are lost without it, measured."""
    readers: int | None = None
    """Facts that read it at all, where that is known exactly; this one is among them."""


@dataclass(frozen=True)
class Location(Shown):
    """Where a fact lies. With `exact` no other weight belongs to this fact or its neighbours in the parts."""

    fact: str
    exact: bool
    said: str
    parts: tuple[LocatedPart, ...]
    facts_run: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def sheet(self) -> Sheet:
        reading = any(one.readers is not None for one in self.parts)
        leads = any(one.lead is not None for one in self.parts)
        columns = ["part", "weights", *(["of the lead"] if leads else []), *(["facts that read it"] if reading else [])]
        rows = []
        for one in self.parts:
            row = [one.name, one.weights, *([number(one.lead)] if leads else [])]
            row += [number(one.readers)] if reading else []
            rows.append((*row, "lost" if one.needed else "kept", f"{100 * one.others_lost:.3g} %"))
        columns += ["fact without it", "others lost"]
        grid = Grid(tuple(columns), tuple(rows), left=("weights",))
        note = f"others lost: of {self.facts_run:,} other facts that were run with the part set to zero"
        return Sheet(
            visible(self.fact), lines=(self.said,), grids=(grid,) if rows else (), notes=(note,) if rows else ()
        )


@dataclass(frozen=True)
class Dependents(Shown):
    """The facts that depend on some weights: those that read them, where that is known, and those that are lost with
    the weights at zero, which was tried."""

    weights: str
    count: int
    exact: bool
    said: str
    n_readers: int | None
    n_lost: int
    facts_run: int
    facts: tuple[str, ...]
    """The first of the readers, or of the lost."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def sheet(self) -> Sheet:
        what = "read them" if self.exact else "are lost without them"
        rows = tuple((visible(fact),) for fact in self.facts)
        more = (self.n_readers if self.n_readers is not None else self.n_lost) - len(rows)
        return Sheet(
            self.weights,
            f": {self.count:,} weight{'s' if self.count > 1 else ''}",
            (self.said,),
            (Grid((f"facts that {what}",), rows),) if rows else (),
            (f"... and {more:,} more",) if more > 0 and rows else (),
        )


@checked
def locate(
    memory: Memory, *words: str, fact: int | None = None, table: Table | None = None, run: int = MOST_FACTS
) -> Location:
    """Which weights carry a fact, named by its context or by its number in the table (from 1).

    `run` is how many other facts are run without each part.
    """
    known = _table(memory, table)
    return located(memory, known, _row(memory, known, words, fact), run)


def located(memory: Memory, known: Table, row: int, run: int) -> Location:
    """Where a fact lies, by its number (from 0) in the table of the model, which is in the model's words."""
    construction, ids = constructions.get(memory.certificate.construction), _ids(known, row)
    search = Search(memory.model, known, memory.certificate)
    found = construction.located(search, row)
    pieces = list(memory.model.pieces(ids)) if found is None else list(found.pieces)
    if found is None:
        pieces.sort(key=lambda one: -abs(one.lead or 0.0))
    others = _sample(known, row, run) if pieces else []
    parts: list[LocatedPart] = []
    whole = _leads(memory.model, known, [row, *others]) if pieces else np.zeros(0)
    for piece, readers in zip(pieces[:MOST_PARTS], found.readers if found else [None] * len(pieces), strict=False):
        without = _leads(_without(memory.model, piece.tensor, piece.key), known, [row, *others])
        lost = (whole[1:] > 0) & ~(without[1:] > 0)
        share = float(lost.sum()) / max(1, len(others))
        parts.append(LocatedPart(piece.name, piece.weights, piece.lead, not without[0] > 0, share, readers))
    said = found.said if found else _measured(parts, len(pieces))
    return Location(known.fact_text(row), found is not None, said, tuple(parts), len(others))


def _measured(parts: Sequence[LocatedPart], every: int) -> str:
    if not parts:
        return "This kind of model has no parts that could be taken out one by one: all facts lie in all weights."
    needed, shared = [one for one in parts if one.needed], sum(one.others_lost > 0 for one in parts)
    tried = f"its {len(parts)} parts" if len(parts) == every else f"the {len(parts)} of {every:,} parts that were tried"
    return (
        f"This fact has no weights of its own: facts are spread over all of them. Of {tried}, {len(needed)} cannot be "
        f"missed, and {shared} carry other facts too."
    )


@checked
def dependents(memory: Memory, weights: str, *, table: Table | None = None, run: int | None = None) -> Dependents:
    """Which facts depend on some weights, written as `layers.3.weight[5, 174]`, `W_O[3]` or `W_down[:, 7]`.

    All facts are run with these weights at zero, or a sample of `run` of them.
    """
    known = _table(memory, table)
    tensor, key = _parsed(memory.model, weights)
    construction = constructions.get(memory.certificate.construction)
    readers = construction.readers(Search(memory.model, known, memory.certificate), tensor, key)
    rows = list(range(known.n_facts)) if run is None else _sample(known, None, run)
    before = _leads(memory.model, known, rows)
    after = _leads(_without(memory.model, tensor, key), known, rows)
    lost = np.flatnonzero((before > 0) & ~(after > 0))
    moved = int(np.count_nonzero(before != after))
    count = int(memory.module.state_dict()[tensor][key].numel())
    if readers is not None:
        shown = np.flatnonzero(readers)
        said = (
            f"{len(shown):,} of {known.n_facts:,} facts read them, and no other fact can notice what they are; at zero "
            f"{len(lost):,} are lost."
        )
    else:
        shown = np.array(rows, dtype=np.int64)[lost]
        said = (
            f"Facts share these weights: at zero, {len(lost):,} of {len(rows):,} facts that were run are lost, and the "
            f"leads of {moved:,} change."
        )
    facts = tuple(known.fact_text(int(i)) for i in shown[:SHOWN])
    readers_count = None if readers is None else int(np.count_nonzero(readers))
    return Dependents(weights, count, readers is not None, said, readers_count, len(lost), len(rows), facts)


def _table(memory: Memory, table: Table | None) -> Table:
    known = memory.table() if table is None else memory.prepared(table)
    if not memory.certificate.refers_to(known):
        raise CheckpointError(f"{known.name} is not what {memory.folder} was built from; give the original table.")
    wording = memory.model.wording
    return known if wording is None else known.in_words_of(wording.vocabulary, wording.context)


def _row(memory: Memory, table: Table, words: Sequence[str], fact: int | None) -> int:
    if (fact is None) == (not words):
        raise UsageError("name one fact: by its context, or by its number in the table.")
    if fact is not None:
        if not 1 <= fact <= table.n_facts:
            raise UsageError(f"there is no fact {fact:,}; they run from 1 to {table.n_facts:,}.")
        return fact - 1
    at = row_of(table, memory.encode(words))
    if at is None:
        raise UsageError(f"({', '.join(words)}) is no fact of {table.name}: no weight carries it; ask for a fact.")
    return at


def row_of(table: Table, ids: Sequence[int]) -> int | None:
    """The number (from 0) of the fact with a context of token ids."""
    at = np.flatnonzero((np.asarray(_inputs(table)[0]) == np.array(ids)).all(axis=1))
    return int(at[0]) if len(at) else None


def _ids(table: Table, row: int) -> list[int] | None:
    return None if table.words is None else [int(i) for i in table.inputs(slice(row, row + 1))[0][0]]


def _sample(table: Table, row: int | None, most: int) -> list[int]:
    rows = [int(i) for i in np.random.default_rng(0).permutation(table.n_facts) if i != row]
    return sorted(rows[:most])


def _leads(model: Model, table: Any, rows: Sequence[int]) -> Any:
    """The leads of the right answers of some facts; several of a fact count by the least."""
    targets = np.asarray(getattr(table, "targets", 0.0))
    if targets.dtype.kind not in "iu":
        raise UsageError(f"facts can be lost one by one where they have one right answer; {table.kind} do not.")
    outputs, found = model.outputs(_format(model)), []
    for start in range(0, len(rows), outputs.rows_at_once):
        some = np.array(rows[start : start + outputs.rows_at_once])
        inputs = tuple(array[some] if len(array) == table.n_facts else array for array in _inputs(table))
        found.append(outputs.leads(inputs, targets[some])[0])
    leads = np.concatenate([np.asarray(one, dtype=np.float64) for one in found])
    return leads if leads.ndim == 1 else leads.reshape(len(leads), -1).min(axis=1)


def _inputs(table: Table) -> Any:
    return table.inputs(slice(0, table.n_facts))


def _format(model: Model) -> str:
    return next((str(p.dtype)[6:] for p in model.module.parameters()), "float64")


def _without(model: Model, tensor: str, key: Any) -> Model:
    """A copy of the model with some weights at zero."""
    ablated = copy.deepcopy(model)
    ablated.module.state_dict()[tensor][key] = 0
    return ablated


def _parsed(model: Model, weights: str) -> tuple[str, Any]:
    """The tensor and the index of weights written as `NAME[i, j]`."""
    found = re.fullmatch(r"\s*([\w.]+)\s*(?:\[([^\]]*)\])?\s*", weights)
    tensors = model.module.state_dict()
    if not tensors:
        raise UsageError(
            f"a model of the kind {model.kind} keeps its weights in no tensors; its facts share all of them."
        )
    if found is None:
        raise UsageError(f"{weights!r} names no weights; write them as NAME[i, j], such as {next(iter(tensors))}[0].")
    if found[1] not in tensors:
        raise UnknownName("tensor", found[1], tensors)
    key: list[Any] = []
    shape = tuple(tensors[found[1]].shape)
    for axis, part in enumerate((found[2] or "").split(",") if (found[2] or "").strip() else []):
        text = part.strip()
        if text == ":":
            key.append(slice(None))
            continue
        ends = re.fullmatch(r"(\d+)(?::(\d+))?", text)
        last = None if ends is None else int(ends[2]) - 1 if ends[2] else int(ends[1])
        if ends is None or last is None or axis >= len(shape) or not int(ends[1]) <= last < shape[axis]:
            raise UsageError(
                f"{weights!r} lies outside of {found[1]}, whose shape is {shape}; count from 0, and write : for all."
            )
        key.append(slice(int(ends[1]), int(ends[2])) if ends[2] else int(text))
    return found[1], tuple(key)
