"""The records and the base class that every theorem file uses.

A theorem answers one question, `bound(setting)`: how many facts does this shape hold, and under which conditions?
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rote.config import Architecture, Dtype
from rote.data.arguments import check_fields
from rote.errors import ShapeError, UsageError
from rote.plot.sheet import Grid, Sheet, Shown, number

Kind = Literal["lower", "upper", "order", "empirical"]
Status = Literal["met", "not met", "unknown"]


@dataclass(frozen=True)
class Citation:
    """Where a statement comes from, precisely enough to look it up."""

    authors: str
    title: str
    year: int
    where: str
    """The place inside the work, such as "Theorem 1"."""
    arxiv: str | None = None
    """Identifier with version, such as "2306.02010v3"."""
    venue: str | None = None

    def __str__(self) -> str:
        parts = [f"{self.authors} {self.year}", self.where]
        parts += [f"arXiv {self.arxiv}"] if self.arxiv else []
        parts += [self.venue] if self.venue else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Condition:
    """One assumption of a theorem, and what is known of it in the present setting."""

    name: str
    status: Status
    detail: str

    def to_dict(self) -> dict[str, str]:
        return asdict(self)


def condition(name: str, holds: bool | None, detail: str) -> Condition:
    """A condition from a truth value, where None stands for "cannot be told from what was given"."""
    status: Status = "unknown" if holds is None else "met" if holds else "not met"
    return Condition(name, status, detail)


@dataclass(frozen=True)
class Setting:
    """A shape, and what is known about the data that it is to hold.

    `kruskal` is the Kruskal rank of the queries, `distinct_last` the number L of distinct last tokens, `n_facts` the
    number of facts T_0 one has in mind; None where unknown. `shared_context` says that all examples have one context.
    """

    arch: Architecture
    dtype: Dtype = "float32"
    shared_context: bool = False
    kruskal: int | None = None
    distinct_last: int | None = None
    n_facts: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("kruskal", "distinct_last", "n_facts"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, got {value}.")
        if self.kruskal is not None and self.kruskal > self.arch.d_model:
            raise ShapeError(
                f"the Kruskal rank of vectors in {self.arch.d_model} dimensions is at most {self.arch.d_model}, "
                f"got {self.kruskal}; check both."
            )
        if self.distinct_last is not None and self.distinct_last > self.arch.vocab:
            raise ShapeError(
                f"a vocabulary of {self.arch.vocab} has at most {self.arch.vocab} distinct last tokens, "
                f"got {self.distinct_last}."
            )

    @property
    def bits_per_fact(self) -> float:
        """log2 N: what one of N equally likely targets weighs."""
        return math.log2(self.arch.vocab)


@dataclass(frozen=True)
class Bound(Shown):
    """What a theorem says about a setting.

    `facts` is None where the result is an order of magnitude, where a condition fails, or where something that the
    formula needs is unknown; `formula` then still shows what was put in.
    """

    theorem: str
    kind: Kind
    facts: int | None
    params: int | None
    conditions: tuple[Condition, ...]
    formula: str
    source: str
    counts: str = "all weights of the shape"
    """Which weights `params` counts."""
    bits_per_fact: float | None = None
    own_shape: bool = False
    """It is about as many parameters in another shape; it never decides whether facts fit this one."""

    @property
    def applies(self) -> bool:
        """No condition is known to fail."""
        return all(item.status != "not met" for item in self.conditions)

    @property
    def open(self) -> tuple[str, ...]:
        """The conditions of which nothing is known."""
        return tuple(item.name for item in self.conditions if item.status == "unknown")

    @property
    def bits_per_param(self) -> float | None:
        if self.facts is None or not self.params or self.bits_per_fact is None or math.isnan(self.bits_per_fact):
            return None
        return self.facts * self.bits_per_fact / self.params

    def to_dict(self) -> dict[str, Any]:
        bits = self.bits_per_param
        return {
            "theorem": self.theorem,
            "kind": self.kind,
            "facts": self.facts,
            "params": self.params,
            "bits_per_param": None if bits is None else float(f"{bits:.6g}"),
            "conditions": [item.to_dict() for item in self.conditions],
            "formula": self.formula,
            "source": self.source,
            "counts": self.counts,
            "applies": self.applies,
        }

    def row(self) -> tuple[str, ...]:
        """For tables: theorem and formula, facts, parameters, bits per parameter, and conditions that are not met."""
        marks = {"unknown": "? {0.name}", "not met": "✗ {0.name}: {0.detail}"}
        unmet = "\n".join(marks[one.status].format(one) for one in self.conditions if one.status in marks)
        sizes = (number(value) for value in (self.facts, self.params, self.bits_per_param))
        return (f"{self.theorem}\n{self.formula}", *sizes, unmet or "all met")

    def sheet(self) -> Sheet:
        held = "no number of facts" if self.facts is None else f"{self.facts:,} facts"
        marks = {"met": "✓", "not met": "✗", "unknown": "?"}
        rows = tuple((marks[one.status], one.name, one.detail) for one in self.conditions)
        return Sheet(
            self.theorem,
            f": {held} ({self.kind}), {number(self.params)} parameters",
            (self.formula,),
            (Grid(("", "condition", "detail"), rows, left=("condition", "detail")),),
            (self.source,),
        )

    def __repr__(self) -> str:
        held = "no number" if self.facts is None else f"{self.facts:,} facts"
        return f"Bound({self.theorem}: {self.kind}, {held}, {number(self.params)} parameters)"


class Theorem(ABC):
    """One statement about memorisation. A file of this package makes one instance, called `theorem`.

    `key` is the file's name, set by the registry on import.
    """

    key: str = ""
    title: str
    kind: Kind
    citation: Citation
    statement: str
    """One or two sentences, in the project's names, for lists."""
    promises: str = "recall of every fact"
    """What holding a fact means here: "recall of every fact", "accuracy", "existence up to constants", ..."""
    takes_vectors: bool = False
    """Whether it speaks of vectors rather than tokens."""

    @abstractmethod
    def bound(self, setting: Setting) -> Bound:
        """What the theorem says about a shape; never raises for a valid setting."""

    def searches(self, arch: Architecture) -> bool:
        """Whether it searches for its number at such a shape, which takes more than a moment."""
        return False

    def make(
        self,
        setting: Setting,
        *,
        conditions: tuple[Condition, ...],
        formula: str,
        facts: int | None = None,
        params: int | Literal["full"] | None = "full",
        counts: str = "all weights of the shape",
        bits_per_fact: float | None = None,
        own_shape: bool = False,
    ) -> Bound:
        """A `Bound` of this theorem; the number is withheld when a condition fails or the kind is an order.

        `params` are all weights of the shape if not given.
        """
        if self.kind == "order" or any(item.status == "not met" for item in conditions):
            facts = None
        return Bound(
            theorem=self.key,
            kind=self.kind,
            facts=facts,
            params=setting.arch.params("full") if params == "full" else params,
            conditions=conditions,
            formula=formula,
            source=str(self.citation),
            counts=counts,
            bits_per_fact=setting.bits_per_fact if bits_per_fact is None else bits_per_fact,
            own_shape=own_shape,
        )
