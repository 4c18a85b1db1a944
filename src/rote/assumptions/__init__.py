"""Do data meet the assumptions of the theorems? One file per assumption.

A file says which theorems rest on it (`THEOREMS`), and has in `CHECKS`, for each kind of data that it is about, a
function (data, d_model, *, rng) -> findings. `check` asks all of them. A verdict is True or False only where that is
shown; otherwise it is open, with the interval that is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from rote import theorems
from rote.assumptions import (
    context_overlap,
    context_rank,
    distinct_bags,
    distinct_contexts,
    distinct_examples,
    general_position,
    hebbian_margin,
    kruskal_rank,
    last_tokens,
    rank_condition,
    separation,
)
from rote.assumptions._finding import Finding, Findings, Usable, usable
from rote.assumptions._vectors import Vectors, read_vectors
from rote.data.arguments import checked
from rote.errors import UsageError

if TYPE_CHECKING:
    from rote.data.table import Table

__all__ = ["Finding", "Findings", "Usable", "Vectors", "check", "checkable", "read_vectors", "usable"]

_MODULES: tuple[ModuleType, ...] = (
    context_rank,
    kruskal_rank,
    general_position,
    distinct_examples,
    distinct_contexts,
    distinct_bags,
    separation,
    last_tokens,
    rank_condition,
    context_overlap,
    hebbian_margin,
)
_KINDS = tuple(sorted({kind for module in _MODULES for kind in module.CHECKS}))


@checked
def check(
    data: Table | Vectors,
    *,
    d_model: int | None = None,
    only: str | Iterable[str] | None = None,
    rng: np.random.Generator | int = 0,
) -> Findings:
    """Every assumption that applies to the data, or only those that the theorems `only` rest on.

    `d_model` is the width that token facts are held against; without it, the narrowest one that tells targets apart.
    """
    kind = getattr(data, "kind", None)
    if kind not in _KINDS:
        what = type(data).__name__ if kind is None else f"table of {kind}"
        raise UsageError(f"assumptions are checked on tables of {', '.join(_KINDS)}, and this is a {what}.")
    held = Vectors.of(data) if kind == Vectors.kind else data
    if d_model is not None and (d_model < 1 or getattr(held, "d_model", d_model) != d_model):
        raise UsageError(f"d_model = {d_model} is not the width of these data, or no width at all; leave it out.")
    wanted = None if only is None else _keys(only)
    if isinstance(rng, int) and rng < 0:
        raise UsageError(f"a seed is a whole number from 0, or a numpy Generator, got {rng}.")
    generator = np.random.default_rng(rng) if isinstance(rng, int) else rng
    asked = [m for m in _MODULES if kind in m.CHECKS and (wanted is None or set(wanted) & set(m.THEOREMS))]
    findings = tuple(finding for module in asked for finding in module.CHECKS[kind](held, d_model, rng=generator))
    if wanted is None:
        return Findings(_title(held), findings)
    kept = tuple(finding for finding in findings if set(wanted) & set(finding.theorems))
    spoken = {key for finding in kept for key in finding.theorems}
    foreign = tuple(key for key in wanted if key in checkable() and key not in spoken)
    return Findings(_title(held), kept, wanted, foreign)


def _keys(only: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(theorems.get(key).key for key in ([only] if isinstance(only, str) else only))


def _title(data: Table | Vectors) -> str:
    if data.words is None:
        return str(data)
    return f"{data.name}: {data.n_facts:,} {data.noun}, contexts of {data.context}, {len(data.words):,} tokens"


def checkable() -> frozenset[str]:
    """The theorems that make an assumption about data."""
    return frozenset(key for module in _MODULES for key in module.THEOREMS)
