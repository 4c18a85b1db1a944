"""The base class of theorems that hand over weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from rote.config import Architecture
from rote.theorems._base import Bound, Demand, Plan, Setting, Theorem

if TYPE_CHECKING:
    import numpy as np

    from rote.solvers.record import Construction, Options, Progress

__all__ = ["Builder"]

Data = TypeVar("Data")


class Builder(Theorem, Generic[Data]):
    """A theorem with a proof that is carried out.

    `rote build` goes through `shapes` (the plan first, then what to try if the plan's shape loses facts at the number
    format that is asked for), calls `admit` and then `build`, and lets the referee judge the result. `limit` is what
    the certificate calls the bound; for a fit it is an estimate, and more may be tried.
    """

    constructive = True
    takes: Literal["facts", "vectors", "sequences"]
    """A FactTable, a VectorTable or a SequenceTable."""
    also_takes: tuple[str, ...] = ()
    native: Literal["floats", "exact"] = "floats"
    """The arithmetic it is made for: then recall is judged in it, and shapes come from the data."""
    exact: bool = True
    """Whether `limit` is a promise: then more facts are refused before anything is computed."""

    def shapes(self, demand: Demand) -> Iterator[Plan]:
        """Shapes to try, smallest first."""
        answer = self.plan(demand)
        if isinstance(answer, Plan):
            yield answer

    @abstractmethod
    def setting(self, data: Data, arch: Architecture, dtype: str) -> Setting:
        """The shape, with what the data tell about the conditions."""

    def limit(self, data: Data, arch: Architecture, dtype: str) -> Bound:
        """The bound for these data and this shape."""
        return self.bound(self.setting(data, arch, dtype))

    @abstractmethod
    def admit(self, data: Data, arch: Architecture) -> None:
        """Refuse data that break an assumption (AssumptionError, naming the offenders)."""

    @abstractmethod
    def build(
        self, data: Data, arch: Architecture, *, rng: np.random.Generator, options: Options, progress: Progress
    ) -> Construction:
        """The weights; the referee decides whether they recall everything."""

    @abstractmethod
    def examples(self, rng: np.random.Generator) -> list[tuple[Data, Architecture]]:
        """Small data at the bound, with shapes that hold them."""

    @abstractmethod
    def near_misses(self, rng: np.random.Generator) -> list[tuple[Data, Architecture, str]]:
        """Data that break an assumption or exceed the bound, with a word that the refusal must contain."""


AnyBuilder = Builder[Any]
