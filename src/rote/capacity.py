"""The two questions that need no data: `bounds` (how much does a shape hold?) and `plan` (how small will do?)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rote import theorems
from rote.config import Dtype
from rote.errors import ShapeError, UsageError
from rote.theorems import Bound, Demand, NoPlan, Plan, Setting

if TYPE_CHECKING:
    from rote.data import FactTable, VectorTable

__all__ = ["PlanList", "bounds", "data_demand", "plan"]

_KIND_ORDER = {"lower": 0, "upper": 1, "order": 2, "empirical": 3}


def bounds(setting: Setting, only: Sequence[str] | None = None) -> list[Bound]:
    """Every registered bound for a setting: lower, upper, orders, measured constants; larger numbers first."""
    chosen = theorems.registry().values() if only is None else [theorems.get(key) for key in only]
    found = [theorem.bound(setting) for theorem in chosen]
    return sorted(found, key=lambda b: (_KIND_ORDER[b.kind], b.facts is None, -(b.facts or 0), b.theorem))


def data_demand(
    data: FactTable | VectorTable,
    *,
    dtype: Dtype = "float32",
    d_model: int | None = None,
    n_heads: int | None = None,
    d_head: int | None = None,
    max_params: int | None = None,
) -> Demand:
    """What must fit, with everything that the data tell about the conditions."""
    from rote.data import FactTable

    if isinstance(data, FactTable):
        import numpy as np

        return Demand(
            data.n_facts,
            max(2, data.vocab),
            data.context,
            dtype,
            d_model,
            n_heads,
            max_params,
            distinct_last=data.distinct_last_tokens,
            d_head=d_head,
            n_targets=data.n_targets,
            distinct_bags=len(np.unique(np.sort(data.contexts, axis=1), axis=0)),
            structure_factors=_structure_factors(data),
        )
    if d_model not in (None, data.d_model):
        raise UsageError(f"the vectors have {data.d_model} dimensions, so d_model cannot be {d_model}.")
    return Demand(
        data.n_examples,
        max(2, data.n_classes or 2),
        data.context,
        dtype,
        data.d_model,
        n_heads,
        max_params,
        d_head=d_head,
        vectors=True,
        shared_context=data.shared,
    )


def _structure_factors(table: FactTable) -> tuple[float, ...]:
    """Shares of the size for random tables that are worth a try, by how often neighbours have the same target.

    Two facts are neighbours if their contexts differ in one position only. Where neighbours agree far more often than
    chance, as for codes whose first letters tell the country, a fit needs a fraction of what a random table needs.
    """
    import numpy as np

    mixer = np.random.default_rng(0).integers(1, 2**62, size=table.context, dtype=np.int64) | 1
    pairs = agree = 0
    for position in range(table.context):
        others = np.delete(np.arange(table.context), position)
        with np.errstate(over="ignore"):
            key = (table.contexts[:, others] + 1) @ mixer[others]
        order = np.argsort(key, kind="stable")
        same = key[order][1:] == key[order][:-1]
        pairs += int(same.sum())
        agree += int((same & (table.targets[order][1:] == table.targets[order][:-1])).sum())
    if table.n_targets > 0.5 * table.n_facts and table.n_facts <= 3000:
        # Nearly every fact has a target of its own: its code can be put where the features already are.
        return (0.05, 0.15, 0.4)
    if pairs < 30:
        return ()
    shares = np.bincount(table.targets) / table.n_facts
    beyond_chance = agree / pairs - float((shares**2).sum())
    if beyond_chance > 0.5:
        return (0.025, 0.05, 0.1, 0.2, 0.4)
    return (0.3, 0.5, 0.75) if beyond_chance > 0.2 else ()


@dataclass(frozen=True)
class PlanList:
    """The shapes that would do, smallest first, and why the other constructions have none."""

    plans: tuple[Plan, ...]
    refused: tuple[NoPlan, ...]


def plan(demand: Demand, only: Sequence[str] | None = None) -> PlanList:
    """For every construction the smallest shape that holds the facts, sorted by parameters."""
    chosen = [t for t in theorems.registry().values() if t.takes_vectors or not demand.vectors]
    if only is not None:
        chosen = [theorems.get(key) for key in only]
    plans: list[Plan] = []
    refused: list[NoPlan] = []
    for theorem in chosen:
        answer: Plan | NoPlan | None
        try:
            answer = theorem.plan(demand)
            if theorem.takes_vectors and demand.n_targets is not None and not demand.vectors:
                answer = NoPlan(theorem.key, "it is built from vectors, and these facts are tokens")
        except ShapeError as error:
            answer = NoPlan(theorem.key, str(error).rstrip("."))
        if isinstance(answer, Plan) and demand.max_params is not None and answer.params > demand.max_params:
            answer = NoPlan(
                answer.construction, f"needs {answer.params:,} parameters, more than the {demand.max_params:,} allowed"
            )
        if isinstance(answer, Plan):
            plans.append(answer)
        elif isinstance(answer, NoPlan):
            refused.append(answer)
    return PlanList(tuple(sorted(plans, key=lambda p: (p.params, p.construction))), tuple(refused))
