"""Facts into a stock Llama (or Mistral) checkpoint of Hugging Face transformers, with one decoder layer.

Heads are drawn at random, and o_proj is fitted on the features of the stock modules, a convex problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rote.config import Architecture, Dtype, Shape
from rote.constructions._base import Construction, Job, Needs, Options, Plan, fit_needs, stored_bytes
from rote.constructions._data import check_sizes, counted, refuse_lost, told, wording
from rote.constructions._stock import unspoken
from rote.data.left_out import LeftOut
from rote.data.stock import library
from rote.data.verification import finite

if TYPE_CHECKING:
    import numpy as np

    from rote.data import FactTable
    from rote.data.demand import Demand
    from rote.models import Model
    from rote.models.kinds.llama import LlamaModel
    from rote.solvers.llama_plan import LlamaShape

__all__ = ["StockLlama", "construction"]


@dataclass(frozen=True)
class StockLlama(Options):
    """There is nothing to be told."""


class _Construction(Construction["FactTable", StockLlama]):
    """One decoder layer of the stock architecture, o_proj fitted on the features of the stock modules."""

    accepts = ("facts",)
    Options = StockLlama
    title = "Convex fit of o_proj, on the features of a stock decoder layer"
    arch = "llama"
    exact = False

    def unfit(self, table: FactTable, options: StockLlama) -> list[LeftOut]:
        reasons = unspoken(table)
        return [LeftOut(row, table.fact_text(row), table.place(row), reasons[row]) for row in sorted(reasons)]

    def shapes(self, table: FactTable, shape: Shape, dtype: Dtype, options: StockLlama) -> Iterator[Plan]:
        """The shape asked for; or the planned one, and larger ones should it lose facts."""
        from rote.solvers.llama_plan import LlamaShape, plan_llama

        def as_plan(stock: LlamaShape) -> Plan:
            arch = Architecture(
                stock.n_heads, stock.d_model, stock.d_head, table.context, max(2, table.vocab), d_mlp=stock.d_mlp,
                gated=True,
            )  # fmt: skip
            params = stock.params(arch.vocab)
            shared = arch.vocab * arch.d_model
            note = f"planned with a head that shares the embedding, which spares {shared:,}"
            return Plan(self.key, arch, params, stored_bytes(params, dtype), table.n_facts, note, dtype=dtype)

        if shape.n_heads is not None and shape.d_model is not None:
            yield as_plan(LlamaShape(shape.d_model, shape.n_heads, shape.d_head or shape.d_model))
            return
        pad = table.vocabulary.pad_id
        planned = plan_llama(table.contexts, table.targets, table.vocab, pad, dtype)
        # Wider streams tell more targets apart; more features hold more facts.
        for wider, more in ((1, 1.0), (1, 1.6), (2, 1.6), (2, 3.0), (4, 3.0), (8, 6.0)):
            width = shape.d_model or planned.d_model * wider
            d_head = shape.d_head or (planned.d_head if width == planned.d_model else width + width % 2)
            heads = -(-round(planned.n_features * more) // d_head) if shape.n_heads is None else shape.n_heads
            yield as_plan(LlamaShape(width, heads, d_head))

    def needs(self, demand: Demand, plan: Plan) -> Needs:
        arch = plan.architecture
        fit = fit_needs(demand, arch.n_heads * arch.d_head, arch.d_model, arch.n_heads * arch.d_head)
        # The library itself; every fact is asked as text, too.
        return Needs(fit.bytes + 3 * 10**8, fit.seconds + 3 + 7e-4 * demand.n_facts)

    def check(self, table: FactTable, arch: Architecture, options: StockLlama) -> None:
        sizes = (("context", table.context, arch.context), ("vocab", max(2, table.vocab), arch.vocab))
        check_sizes(table.noun, *sizes)
        self.fitting(table, options)

    def build(self, job: Job[FactTable, StockLlama]) -> Model:
        library("a stock Llama checkpoint")
        import torch

        from rote.models.kinds.llama import LlamaModel
        from rote.solvers.llama import build_llama

        job.progress("features", 0, 0, None)
        table, arch = job.table, job.arch
        fit = build_llama(
            table.contexts.copy(),
            table.targets.copy(),
            table.vocab,
            table.vocabulary.pad_id,
            n_heads=arch.n_heads,
            d_model=arch.d_model,
            d_head=arch.d_head,
            rng=job.rng,
            dtype=getattr(torch, job.dtype),
            progress=told(job, "fit o_proj"),
            advance=counted(job),
        )
        refuse_lost(job, fit.errors)
        spectrum, spoken = fit.readout.spectrum, wording(table)
        assert spoken is not None, "token facts have words"
        model = LlamaModel(
            fit.model,
            arch,
            spoken,
            report={
                "model_type": fit.model.config.model_type,
                "tied_embedding": fit.tied,
                "n_kv_heads": fit.shape.n_kv_heads,
                "iterations": fit.readout.iterations,
                "rank_features": spectrum.rank,
                "condition": finite(spectrum.condition),
            },
        )
        _sharpen(model, table, job.dtype)
        return model

    def examples(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture]]:
        from rote.data import random_facts

        return [(random_facts(60, 3, 24, rng=rng), Architecture(12, 16, 8, 3, 24, d_mlp=1, gated=True))]

    def near_misses(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture, str]]:
        import numpy as np

        from rote.data import FactTable, Vocabulary

        tabbed = FactTable(np.array([[0, 1], [1, 0]]), np.array([2, 1]), Vocabulary(["a", "b\tc", "d"]))
        return [(tabbed, Architecture(2, 8, 8, 2, 3, d_mlp=1, gated=True), "tab")]


def _sharpen(model: LlamaModel, table: FactTable, dtype: Dtype) -> None:
    """Stretch the final norm by a power of two, so that the smallest lead is worth a clear probability."""
    import torch

    from rote.solvers.record import stretch

    with torch.no_grad():
        lead = table.score(model.outputs(dtype), dtype).min_margin
        model.module.model.norm.weight *= stretch(lead, table.vocab)


construction = _Construction()
