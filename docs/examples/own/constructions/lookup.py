"""A look-up table, filled (worked example of docs/adding-a-construction.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rote.config import Architecture
from rote.constructions import Construction, Job, NoPlan, Options, Plan, stored_bytes
from rote.data.demand import Demand

if TYPE_CHECKING:
    import numpy as np

    from rote.data import FactTable
    from rote.models import Model

__all__ = ["LookupTable", "construction"]


@dataclass(frozen=True)
class LookupTable(Options):
    """A look-up table may be told nothing."""


class _Construction(Construction["FactTable", LookupTable]):
    Options = LookupTable
    title = "A look-up table of last tokens"
    accepts = ("facts",)
    shaped_by = ()

    def plan(self, demand: Demand) -> Plan | NoPlan:
        most = demand.distinct_last or demand.vocab
        if demand.n_facts > most:
            return NoPlan(self.key, f"{demand.n_facts:,} facts need as many last tokens, and there are {most:,}")
        if demand.n_heads is not None or demand.d_model is not None:
            return NoPlan(self.key, "it has neither heads nor a width")
        plan = self.as_plan(Architecture(1, 1, 1, demand.context, demand.vocab), demand)
        size = demand.vocab**2
        return replace(plan, params=size, bytes=stored_bytes(size, demand.dtype), note="no transformer at all")

    def build(self, job: Job[FactTable, LookupTable]) -> Model:
        import torch

        from rote.models import Wording
        from rote.models.kinds.lookup import LookupModel

        table, vocab = job.table, job.arch.vocab
        rows = torch.from_numpy(job.rng.random((vocab, vocab)))
        rows[torch.tensor(table.contexts[:, -1]), torch.tensor(table.targets)] = 2.0
        wording = Wording(table.vocabulary.tokens, table.tokens, table.context)
        return LookupModel(job.arch, rows, wording=wording, dtype=job.dtype)

    def examples(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture]]:
        from rote.data import FactTable

        table = FactTable.from_rows([["what", "sings"], ["what", "hunts"]], ["robin", "owl"])
        return [(table, Architecture(1, 1, 1, table.context, table.vocab))]


construction = _Construction()
