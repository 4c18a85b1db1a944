"""Why a construction refused: the findings that are behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rote.assumptions import check, checkable
from rote.config import Architecture
from rote.errors import AssumptionError

if TYPE_CHECKING:
    from rote.data.table import Table

__all__ = ["explained"]

_MOST_EXAMPLES = 20_000


def explained(error: AssumptionError, theorem: str, data: Table, arch: Architecture) -> AssumptionError:
    """The same refusal, with what `rote.check` finds against the assumptions of the theorem."""
    if data.n_facts > _MOST_EXAMPLES or theorem not in checkable():
        return error
    failing = [f for f in check(data, d_model=arch.d_model, only=theorem) if f.holds is False]
    if not failing:
        return error
    told = " ".join(f"{finding.assumption}: {finding.explanation}" for finding in failing)
    return AssumptionError(f"{error} What rote.check finds for {theorem}: {told}")
