"""Why a construction refused: the findings that are behind it."""

from __future__ import annotations

from rote.assumptions import check
from rote.config import Architecture
from rote.data import FactTable, VectorTable
from rote.errors import AssumptionError

__all__ = ["explained"]

_MOST_EXAMPLES = 20_000


def explained(
    error: AssumptionError, theorem: str, data: FactTable | VectorTable, arch: Architecture
) -> AssumptionError:
    """The same refusal, with what `rote check` finds against the assumptions of the theorem."""
    count = data.n_facts if isinstance(data, FactTable) else data.n_examples
    if count > _MOST_EXAMPLES:
        return error
    failing = [finding for finding in check(data, arch, only=[theorem]) if finding.holds is False]
    if not failing:
        return error
    told = " ".join(f"{finding.assumption}: {finding.explanation}" for finding in failing)
    return AssumptionError(f"{error} What rote check --for {theorem} finds: {told}")
