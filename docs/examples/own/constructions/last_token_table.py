"""A table of last tokens, carried out (worked example of docs/adding-a-construction.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rote.config import Architecture, Dtype
from rote.constructions import Construction, Job, NoPlan, Options, Plan, option
from rote.data.demand import Demand
from rote.errors import AssumptionError
from rote.theorems import Bound, Setting

if TYPE_CHECKING:
    import numpy as np

    from rote.data import FactTable
    from rote.models import Model

__all__ = ["LastTokenTable", "construction"]


@dataclass(frozen=True)
class LastTokenTable(Options):
    """What a table of last tokens may be told."""

    scale: float = option(20.0, "Length of the unembedding's rows; longer ones make surer answers.")


class _Construction(Construction["FactTable", LastTokenTable]):
    Options = LastTokenTable
    title = "A table of last tokens"
    accepts = ("facts", "choices")

    def plan(self, demand: Demand) -> Plan | NoPlan:
        most = demand.distinct_last or demand.vocab
        if demand.n_facts > most:
            return NoPlan(self.key, f"{demand.n_facts:,} facts need as many last tokens, and there are {most:,}")
        width = demand.d_model or 2
        if width < 2:
            return NoPlan(self.key, "unit vectors are told apart in two dimensions or more, and d_model is 1")
        arch = Architecture(demand.n_heads or 1, width, demand.d_head or 1, demand.context, demand.vocab)
        return self.as_plan(arch, demand)

    def limit(self, table: FactTable, arch: Architecture, dtype: Dtype) -> Bound | None:
        if self.theorem is None:
            return None
        return self.theorem.bound(Setting(arch, dtype, distinct_last=table.distinct_last_tokens))

    def check(self, table: FactTable, arch: Architecture, options: LastTokenTable) -> None:
        first: dict[int, int] = {}
        for i, last in enumerate(table.contexts[:, -1].tolist()):
            if first.setdefault(last, i) != i:
                raise AssumptionError(
                    f"{self.key} needs contexts with different last tokens, but facts {first[last] + 1} and {i + 1} "
                    f"both end in {table.vocabulary.token(last)!r}; choose another construction."
                )

    def build(self, job: Job[FactTable, LastTokenTable]) -> Model:
        import torch

        from rote.models import Wording
        from rote.models.kinds.transformer import Transformer, TransformerModel

        table, arch = job.table, job.arch
        weights = {name: torch.zeros(shape) for name, shape in Transformer.shapes(arch).items()}
        # The seed turns the circle: any turn will do.
        angles = 2 * math.pi * (torch.arange(arch.vocab) / arch.vocab + float(job.rng.random()))
        circle = torch.stack([torch.cos(angles), torch.sin(angles)], dim=1)
        weights["W_U"][:, :2] = job.options.scale * circle
        last, targets = torch.tensor(table.contexts[:, -1]), torch.tensor(table.targets)
        weights["W_E"][last, :2] = circle[targets]
        wording = Wording(table.vocabulary.tokens, table.tokens, table.context)
        return TransformerModel(arch, weights, wording=wording, dtype=job.dtype)

    def examples(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture]]:
        from rote.data import FactTable

        rows = [["what", "sings"], ["what", "hunts"], ["who", "swims"]]
        table = FactTable.from_rows(rows, ["robin", "owl", "penguin"])
        return [(table, Architecture(1, width, 1, table.context, table.vocab)) for width in (2, 5)]

    def near_misses(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture, str]]:
        from rote.data import FactTable

        same = FactTable.from_rows([["what", "sings"], ["who", "sings"]], ["robin", "tenor"])
        return [(same, Architecture(1, 2, 1, same.context, same.vocab), "different last tokens")]


construction = _Construction()
