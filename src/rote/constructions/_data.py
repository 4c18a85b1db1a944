"""What constructions from token facts and from vectors share: shapes, settings, and refusals with their reasons."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rote.config import Architecture, Dtype
from rote.constructions._base import Construction, Job, O, T
from rote.errors import AssumptionError, ShapeError
from rote.theorems import Setting, Theorem

if TYPE_CHECKING:
    from rote.data import FactTable, VectorTable
    from rote.data.table import Table
    from rote.models import Model, Wording
    from rote.solvers.vector_layer import LayerWeights

__all__ = ["TokenConstruction", "VectorConstruction", "check_sizes", "wording"]


def wording(table: Table) -> Wording | None:
    """The words of a model of these facts; None where they are not made of tokens."""
    from rote.models import Wording

    return None if table.words is None else Wording(table.words.tokens, table.tokens, table.context)


def check_sizes(noun: str, *sizes: tuple[str, int, int]) -> None:
    """Refuse a shape that is not that of the data; sizes are (name, in the data, in the shape)."""
    for name, held, given in sizes:
        if held != given:
            raise ShapeError(f"the {noun} have {name} {held}, the shape says {given}.")


class _Explained(Construction[T, O]):
    """A construction whose refusals of data say what `rote.check` finds."""

    @property
    def statement(self) -> Theorem:
        """The theorem of the same name."""
        assert self.theorem is not None, f"{self.key} carries out the proof of a theorem of that name"
        return self.theorem

    def admit(self, job: Job[T, O]) -> None:
        with self._explained(job):
            super().admit(job)

    def build(self, job: Job[T, O]) -> Model:
        with self._explained(job):
            return self.solve(job)

    @abstractmethod
    def solve(self, job: Job[T, O]) -> Model:
        """The model; the referee decides whether it recalls everything."""

    @contextmanager
    def _explained(self, job: Job[T, O]) -> Iterator[None]:
        try:
            yield
        except AssumptionError as error:
            from rote.assumptions._explain import explained

            raise explained(error, self.key, job.table, job.arch) from error


class TokenConstruction(_Explained["FactTable", O]):
    """A transformer over token facts."""

    accepts = ("facts",)

    def setting(self, table: FactTable, arch: Architecture, dtype: Dtype) -> Setting:
        """The shape, with what the data tell about the conditions."""
        return Setting(arch, dtype=dtype, distinct_last=min(arch.vocab, table.distinct_last_tokens))

    def check(self, table: FactTable, arch: Architecture, options: O) -> None:
        """The shape must be that of the facts."""
        sizes = (("context", table.context, arch.context), ("vocab", max(2, table.vocab), arch.vocab))
        check_sizes(table.noun, *sizes)
        if arch.d_head > arch.d_model:
            raise ShapeError(f"a head of width {arch.d_head} is wider than d_model = {arch.d_model}; lower d_head.")


class VectorConstruction(_Explained["VectorTable", O]):
    """One attention layer over given vectors."""

    accepts = ("vectors",)

    def setting(self, table: VectorTable, arch: Architecture, dtype: Dtype) -> Setting:
        """The shape, with what the data tell about the conditions."""
        return Setting(arch, dtype=dtype, shared_context=table.shared)

    def check(self, table: VectorTable, arch: Architecture, options: O) -> None:
        """The shape must be that of the vectors."""
        sizes = (("d_model", table.d_model, arch.d_model), ("context", table.context, arch.context))
        check_sizes("vectors", *sizes)

    @staticmethod
    def layer(job: Job[VectorTable, O], weights: LayerWeights, report: dict[str, Any]) -> Model:
        """The layer as a model."""
        import torch

        from rote.models.kinds.attention_layer import AttentionLayerModel

        tensors = {name: torch.from_numpy(getattr(weights, name).copy()) for name in ("W_Q", "W_K", "W_V", "W_O")}
        return AttentionLayerModel(job.arch, tensors, dtype=job.dtype, report=report)
