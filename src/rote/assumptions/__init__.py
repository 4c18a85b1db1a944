"""Do data meet the assumptions of the theorems? One file per assumption, each with `check(data, arch) -> findings`.

`check` asks all of them, `usable` says what follows for each theorem. A verdict is True or False only where that is
shown; otherwise it is open, with the interval that is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from rote.assumptions import (
    context_overlap,
    context_rank,
    distinct_bags,
    distinct_contexts,
    distinct_examples,
    general_position,
    kruskal_rank,
    last_tokens,
    rank_condition,
    separation,
)
from rote.assumptions._finding import Finding
from rote.assumptions._vectors import Vectors, read_vectors
from rote.config import Architecture
from rote.data import FactTable, VectorTable

__all__ = ["Finding", "Usable", "Vectors", "check", "checkable", "read_vectors", "usable"]

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
)


def check(
    data: FactTable | VectorTable | Vectors,
    arch: Architecture | None = None,
    *,
    only: Iterable[str] | None = None,
    rng: np.random.Generator | int = 0,
) -> list[Finding]:
    """Every assumption that applies to the data, or only those that the theorems `only` rest on."""
    held: FactTable | Vectors = Vectors.of_table(data) if isinstance(data, VectorTable) else data
    generator = np.random.default_rng(rng) if isinstance(rng, int) else rng
    wanted = None if only is None else set(only)
    found: list[Finding] = []
    for module in _MODULES:
        if wanted is None or wanted & set(module.THEOREMS):
            found += module.check(held, arch, rng=generator)
    return [finding for finding in found if wanted is None or wanted & set(finding.theorems)]


def checkable() -> frozenset[str]:
    """The theorems that make an assumption about data."""
    return frozenset(key for module in _MODULES for key in module.THEOREMS)


@dataclass(frozen=True)
class Usable:
    """What the findings mean for one theorem."""

    theorem: str
    verdict: bool | None
    reasons: tuple[str, ...]
    """The assumptions that fail, or are open."""


def usable(findings: Iterable[Finding]) -> list[Usable]:
    """One verdict for each theorem that some finding speaks of, in the order of their names."""
    rests: dict[str, list[Finding]] = {}
    for finding in findings:
        for key in finding.theorems:
            rests.setdefault(key, []).append(finding)
    answers = []
    for key, group in sorted(rests.items()):
        failing = tuple(f.assumption for f in group if f.holds is False)
        open_ = tuple(f.assumption for f in group if f.holds is None)
        answers.append(Usable(key, False if failing else None if open_ else True, failing or open_))
    return answers
