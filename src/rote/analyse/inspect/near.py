"""Near misses: contexts that differ from one in a single token, and what the model answers to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rote.data import PAD

if TYPE_CHECKING:
    from rote.data import FactTable
    from rote.memory import Memory

__all__ = ["MOST_TRIED", "NearMiss", "Neighbours", "answers", "near_misses"]

MOST_TRIED = 600
"""Tokens that are tried at a position: those of the facts first, then the first of the vocabulary."""

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NearMiss:
    """A fact one token away: what is true and what was said."""

    position: int
    token: str
    truth: str
    answer: str
    right: bool
    same: bool
    """Whether the answer is that of the context in the middle."""


@dataclass(frozen=True)
class Neighbours:
    """One position changed: how many contexts were tried, how many give the same answer, and the usual answers."""

    position: int
    tried: int
    same: int
    n_facts: int
    n_right: int
    common: tuple[tuple[str, int], ...]
    facts: tuple[NearMiss, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def answers(memory: Memory, contexts: IntArray) -> list[str]:
    """The first answer to every context; of several labels all, side by side."""
    import torch

    from rote.memory import _as_exact

    exact = _as_exact(memory.model)
    with torch.no_grad():
        if exact is not None:
            tokens = memory.model(torch.from_numpy(contexts.copy())).reshape(len(contexts), -1).to(torch.int64).tolist()
            known = [memory.vocabulary[i] for i in exact.labels]
            return [" ".join(known[i] if 0 <= i < len(known) else "(no label)" for i in row) for row in tokens]
        if memory.is_stock:
            from rote.models.stock import stock_logits

            pad = memory.vocabulary.index(PAD) if PAD in memory.vocabulary else None
            best = stock_logits(memory.model, pad)(torch.from_numpy(contexts.copy())).argmax(dim=-1)
        else:
            best = memory.model(torch.from_numpy(contexts.copy())).argmax(dim=-1)
    return [memory.vocabulary[i] for i in best.tolist()]


def near_misses(memory: Memory, ids: Sequence[int], facts: FactTable | None) -> list[Neighbours]:
    """For every position the contexts with another token there; facts among them come with their truth."""
    middle = np.array(ids, dtype=np.int64)
    own = answers(memory, middle[None])[0]
    words = memory.vocabulary
    misses = []
    for position in range(len(middle)):
        if words[middle[position]] == PAD:
            continue
        truths = _facts_beside(middle, position, facts)
        others = _candidates(position, middle, facts, words, truths)
        if not others:
            continue
        rows = np.repeat(middle[None], len(others), axis=0)
        rows[:, position] = others
        said = answers(memory, rows)
        near = [
            NearMiss(
                position, words[token], words[truths[token]], answer, answer == words[truths[token]], answer == own
            )
            for token, answer in zip(others, said, strict=True)
            if token in truths
        ]
        common = Counter(said).most_common(8)
        right = sum(one.right for one in near)
        same = sum(answer == own for answer in said)
        misses.append(Neighbours(position, len(others), same, len(near), right, tuple(common), tuple(near[:60])))
    return misses


def _facts_beside(middle: IntArray, position: int, facts: FactTable | None) -> dict[int, int]:
    """Tokens that make a fact of the context when they stand at this position, with the fact's target."""
    if facts is None or facts.context != len(middle):
        return {}
    agree = (facts.contexts == middle).sum(axis=1) == len(middle) - 1
    rows = np.flatnonzero(agree & (facts.contexts[:, position] != middle[position]))
    return {int(facts.contexts[row, position]): int(facts.targets[row]) for row in rows}


def _candidates(
    position: int, middle: IntArray, facts: FactTable | None, words: Sequence[str], truths: dict[int, int]
) -> list[int]:
    used = range(len(words)) if facts is None else np.unique(facts.contexts[:, position]).tolist()
    others = [int(i) for i in used if i != middle[position] and words[i] != PAD and i not in truths]
    return [*truths, *others][:MOST_TRIED]
