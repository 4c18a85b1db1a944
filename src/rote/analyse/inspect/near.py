"""Near misses: contexts that differ from one in a single token, and what the model answers to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.data import PAD
from rote.data._arrays import IntArray

if TYPE_CHECKING:
    from rote.data import Table
    from rote.memory import Memory

__all__ = ["MOST_TRIED", "NearMiss", "Neighbours", "near_misses"]

MOST_TRIED = 600
"""Tokens that are tried at a position: those of the facts first, then the first of the vocabulary."""


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


def near_misses(memory: Memory, ids: Sequence[int], facts: Table | None) -> list[Neighbours]:
    """For every position the contexts with another token there; facts among them come with their truth.

    `facts` is a table of tokens in the words of the model (`Table.in_words_of`). A model without words has none.
    """
    words = memory.vocabulary
    if not words:
        return []
    middle = np.array(ids, dtype=np.int64)
    (own,) = memory.model.first_answers(middle[None])
    contexts: Any = None if facts is None else facts.inputs(slice(0, facts.n_facts))[0]
    neighbours = []
    for position in range(len(middle)):
        if words[middle[position]] == PAD:
            continue
        truths = {} if facts is None else _facts_beside(middle, position, facts, contexts)
        others = _candidates(position, middle, contexts, words, truths)
        if not others:
            continue
        rows = np.repeat(middle[None], len(others), axis=0)
        rows[:, position] = others
        said = memory.model.first_answers(rows)
        near = [
            NearMiss(position, words[token], truths[token], answer, answer == truths[token], answer == own)
            for token, answer in zip(others, said, strict=True)
            if token in truths
        ]
        common = Counter(said).most_common(8)
        right = sum(one.right for one in near)
        same = sum(answer == own for answer in said)
        neighbours.append(Neighbours(position, len(others), same, len(near), right, tuple(common), tuple(near[:60])))
    return neighbours


def _facts_beside(middle: IntArray, position: int, facts: Table, contexts: IntArray) -> dict[int, str]:
    """Tokens that make a fact of the context when they stand at this position, with the likeliest answer to it."""
    agree = (contexts == middle).sum(axis=1) == len(middle) - 1
    beside = contexts[agree & (contexts[:, position] != middle[position])]
    answers = {int(row[position]): facts.truth(row) or {} for row in beside}
    return {token: max(truth, key=truth.__getitem__) for token, truth in answers.items()}


def _candidates(
    position: int, middle: IntArray, contexts: IntArray | None, words: Sequence[str], truths: Mapping[int, str]
) -> list[int]:
    used = range(len(words)) if contexts is None else np.unique(contexts[:, position]).tolist()
    others = [int(i) for i in used if i != middle[position] and words[i] != PAD and i not in truths]
    return [*truths, *others][:MOST_TRIED]
