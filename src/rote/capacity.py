"""The two questions that need no data: `bounds` (how much does a shape hold?) and `plan` (how small will do?)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rote import theorems
from rote.theorems import Bound, Demand, NoPlan, Plan, Setting

__all__ = ["PlanList", "bounds", "plan"]

_KIND_ORDER = {"lower": 0, "upper": 1, "order": 2, "empirical": 3}


def bounds(setting: Setting, only: Sequence[str] | None = None) -> list[Bound]:
    """Every registered bound for a setting: lower, upper, orders, measured constants; larger numbers first."""
    chosen = theorems.registry().values() if only is None else [theorems.get(key) for key in only]
    found = [theorem.bound(setting) for theorem in chosen]
    return sorted(found, key=lambda b: (_KIND_ORDER[b.kind], b.facts is None, -(b.facts or 0), b.theorem))


@dataclass(frozen=True)
class PlanList:
    """The shapes that would do, smallest first, and why the other constructions have none."""

    plans: tuple[Plan, ...]
    refused: tuple[NoPlan, ...]


def plan(demand: Demand, only: Sequence[str] | None = None) -> PlanList:
    """For every construction the smallest shape that holds the facts, sorted by parameters."""
    chosen = theorems.registry().values() if only is None else [theorems.get(key) for key in only]
    plans: list[Plan] = []
    refused: list[NoPlan] = []
    for theorem in chosen:
        answer = theorem.plan(demand)
        if isinstance(answer, Plan) and demand.max_params is not None and answer.params > demand.max_params:
            answer = NoPlan(
                answer.construction, f"needs {answer.params:,} parameters, more than the {demand.max_params:,} allowed"
            )
        if isinstance(answer, Plan):
            plans.append(answer)
        elif isinstance(answer, NoPlan):
            refused.append(answer)
    return PlanList(tuple(sorted(plans, key=lambda p: (p.params, p.construction))), tuple(refused))
