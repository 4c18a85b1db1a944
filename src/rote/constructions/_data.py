"""What constructions from token facts and from vectors share: shapes, settings, and refusals with their reasons."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rote.config import Architecture, Dtype
from rote.constructions._base import Construction, Job, O, Plan, T
from rote.errors import AssumptionError, FactsLost, ShapeError
from rote.theorems import Bound, Setting, Theorem, condition

if TYPE_CHECKING:
    from torch import Tensor

    from rote.constructions._operations import Edit, Edited
    from rote.data import FactTable, VectorTable
    from rote.data.demand import Demand
    from rote.data.table import Table
    from rote.models import Model, Wording

__all__ = [
    "ESTIMATE",
    "TokenConstruction",
    "VectorConstruction",
    "check_sizes",
    "counted",
    "refuse_lost",
    "told",
    "wording",
]


def wording(table: Table) -> Wording | None:
    """The words of a model of these facts; None where they are not made of tokens."""
    from rote.models import Wording

    return None if table.words is None else Wording(table.words.tokens, table.tokens, table.context, table.properties)


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


_NUMBERS_AT_ONCE = 4_000_000
ESTIMATE = "for random tables, on the safe side; structured ones may need less"
"""What plans say that rest on measured capacities."""


def told(job: Job[Any, Any], stage: str) -> Callable[[int, int, int], None]:
    """A fit's own report, of iterations and rows that are wrong, as progress of the job."""
    # A fit stops when nothing is wrong any more, so nobody knows how far it is.
    return lambda iteration, wrong, rows: job.progress(stage, iteration, 0, rows - wrong)


def refuse_lost(job: Job[Any, Any], lost: int) -> None:
    """End an attempt that lost facts, unless such a model is wanted too: it need not be written and judged."""
    if lost and not job.partial:
        count = job.table.n_facts
        raise FactsLost(f"lost {lost:,} of {count:,} facts at {job.dtype}", recall=1 - lost / count)


def counted(job: Job[Any, Any]) -> Callable[[str, int, int], None]:
    """Rows done of all, as progress of the job."""
    return lambda stage, done, total: job.progress(stage, done, total, None)


class TokenConstruction(_Explained["FactTable", O]):
    """A transformer over token facts."""

    accepts = ("facts",)
    edits = ("set", "insert")

    def edited(self, edit: Edit) -> Edited:
        from rote.constructions._stream_editing import edited_stream

        return edited_stream(edit)

    def setting(self, table: FactTable, arch: Architecture, dtype: Dtype) -> Setting:
        """The shape, with what the data tell about the conditions."""
        return Setting(arch, dtype=dtype, distinct_last=min(arch.vocab, table.distinct_last_tokens))

    def check(self, table: FactTable, arch: Architecture, options: O) -> None:
        """The shape must be that of the facts."""
        sizes = (("context", table.context, arch.context), ("vocab", max(2, table.vocab), arch.vocab))
        check_sizes(table.noun, *sizes)
        if arch.own_rows not in (None, table.both_sides):
            raise ShapeError(
                f"a head that shares the embedding needs rows of its own for the answers that stand in contexts, "
                f"{table.both_sides:,} of them; the shape says {arch.own_rows:,}."
            )
        if arch.d_head > arch.d_model:
            raise ShapeError(f"a head of width {arch.d_head} is wider than d_model = {arch.d_model}; lower d_head.")

    def as_plan(self, arch: Architecture, demand: Demand, *, note: str = "", **said: Any) -> Plan:
        if arch.own_rows is not None:
            spared = (arch.vocab - arch.own_rows) * arch.d_model
            shared = f"its head shares the embedding, which spares {spared:,}"
            note = f"{note}; {shared}" if note else shared
        return super().as_plan(arch, demand, note=note, **said)

    def estimated(self, table: FactTable, arch: Architecture, dtype: Dtype, facts: int) -> Bound:
        """A measured number of facts, which is no promise."""
        return self.statement.make(
            self.setting(table, arch, dtype),
            facts=facts,
            conditions=(condition("random targets", None, f"{table.n_targets} distinct targets"),),
            formula=f"estimate for random tables with {table.n_targets} targets: {facts:,}",
        )

    @staticmethod
    def transformer(
        job: Job[FactTable, O], weights: Mapping[str, Any], margin: float, report: dict[str, Any], **more: Any
    ) -> Model:
        """The weights as a model. The readout is stretched, so that the smallest lead is worth a clear verdict."""
        import torch

        from rote.models.kinds.transformer import TransformerModel
        from rote.solvers.record import stretch

        tensors = {name: torch.as_tensor(value).contiguous() for name, value in weights.items()}
        tensors["W_U"] *= stretch(margin, job.arch.vocab)
        if job.arch.own_rows is not None:
            tensors, more["own"] = _shared(job, tensors, more)
        return TransformerModel(job.arch, tensors, wording=wording(job.table), dtype=job.dtype, report=report, **more)


def _shared(
    job: Job[FactTable, Any], tensors: dict[str, Tensor], more: Mapping[str, Any]
) -> tuple[dict[str, Tensor], list[int]]:
    """The weights with a head that shares the embedding, and the tokens that have rows of their own in it.

    The facts are run once to see how long streams get.
    """
    import numpy as np
    import torch

    from rote.models.kinds.transformer import Transformer
    from rote.solvers.shared_head import share_head

    arch, contexts, targets = job.arch, job.table.contexts, job.table.targets
    number = tensors["W_U"].dtype
    module = Transformer(arch.replace(own_rows=None), {name: t.to(number) for name, t in tensors.items()}, **more)
    at_once = max(16, _NUMBERS_AT_ONCE // (arch.n_heads * (arch.d_model + arch.context) + arch.d_mlp))
    longest, least = 0.0, math.inf
    with torch.no_grad():
        for start in range(0, len(targets), at_once):
            stream = module.to_stream(torch.tensor(contexts[start : start + at_once]))
            right = (stream * module.W_U[torch.tensor(targets[start : start + at_once])]).sum(dim=1)
            longest = max(longest, float(stream.norm(dim=1).max()))
            # Where facts are lost, a right answer may score less than nothing.
            least = min(least, float(right[right > 0].min()) if (right > 0).any() else math.inf)
    own, answers = np.intersect1d(contexts, targets), np.unique(targets)
    return share_head(tensors, answers, own, longest, least if math.isfinite(least) else 1.0), own.tolist()


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
    def layer(job: Job[VectorTable, O], solve: Callable[..., Any], said: Callable[[Any], dict[str, Any]]) -> Model:
        """The layer that a solver makes of the examples, as a model; `said` picks what its report tells."""
        import torch

        from rote.models.kinds.attention_layer import AttentionLayerModel

        table, arch = job.table, job.arch
        made = solve(
            table.contexts.copy(),
            table.queries.copy(),
            table.targets.copy(),
            n_heads=arch.n_heads,
            d_head=arch.d_head,
            rng=job.rng,
            n_classes=table.n_classes,
        )
        weights = made.weights if job.dtype == "float64" else made.weights32
        tensors = {name: torch.from_numpy(value.copy()) for name, value in vars(weights).items()}
        return AttentionLayerModel(arch, tensors, dtype=job.dtype, report=said(made.report))
