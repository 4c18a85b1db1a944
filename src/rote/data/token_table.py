"""What tables of tokens have in common: contexts of ids, one vocabulary for contexts and targets."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from rote.config import Dtype, Shape
from rote.data._arrays import IntArray
from rote.data.demand import Demand
from rote.data.key_filter import KeyFilter
from rote.data.outputs import Outputs
from rote.data.table import Inputs, Table
from rote.data.telling import telling_positions
from rote.data.verification import Verification, score_leads
from rote.data.vocabulary import Vocabulary

__all__ = ["TokenTable"]


class TokenTable(Table):
    """T contexts of S tokens. `targets` are ids of the same vocabulary, one or S for each context; a kind that has no
    such targets scores in its own way."""

    contexts: IntArray
    targets: IntArray
    vocabulary: Vocabulary

    @property
    def n_facts(self) -> int:
        return len(self.contexts)

    @property
    def context(self) -> int:
        """Tokens per context, padding included."""
        return int(self.contexts.shape[1])

    @property
    def vocab(self) -> int:
        return len(self.vocabulary)

    @property
    def words(self) -> Vocabulary:
        return self.vocabulary

    @property
    def distinct_last_tokens(self) -> int:
        return len(np.unique(self.contexts[:, -1]))

    @property
    @abstractmethod
    def n_targets(self) -> int:
        """Distinct targets in use."""

    @property
    def n_padded(self) -> int:
        """Contexts that are shorter than the longest one."""
        pad = self.vocabulary.pad_id
        return 0 if pad is None else int(np.count_nonzero(self.contexts[:, 0] == pad))

    def context_tokens(self, i: int) -> tuple[str, ...]:
        """The tokens of one context, without padding."""
        pad = self.vocabulary.pad_id
        return tuple(self.vocabulary.tokens[k] for k in self.contexts[i] if k != pad)

    def text(self, ids: IntArray) -> str:
        """Ids in words."""
        return " ".join(self.vocabulary.tokens[k] for k in ids)

    def structure_factors(self) -> tuple[float, ...]:
        """Shares of the size for random tables that are worth a try."""
        return ()

    @property
    def both_sides(self) -> int | None:
        """Answers that stand in contexts too; None where every token may be one."""
        return None

    def demand(self, dtype: Dtype, shape: Shape) -> Demand:
        return replace(
            self._open_demand, dtype=dtype, d_model=shape.d_model, n_heads=shape.n_heads, d_head=shape.d_head
        )

    @cached_property
    def _open_demand(self) -> Demand:
        return Demand(
            self.n_facts,
            max(2, self.vocab),
            self.context,
            distinct_last=self.distinct_last_tokens,
            n_targets=self.n_targets,
            n_tokens=len(np.unique(self.contexts)),
            telling=len(telling_positions(self.contexts)),
            distinct_bags=len(np.unique(np.sort(self.contexts, axis=1), axis=0)),
            structure_factors=self.structure_factors(),
            both_sides=self.both_sides,
        )

    @property
    def keys(self) -> KeyFilter | None:
        return KeyFilter.of(self.contexts)

    def key_findings(self, keys: KeyFilter | None) -> dict[str, Any]:
        return {} if keys is None else keys.measured(self)

    def inputs(self, part: slice) -> Inputs:
        return (self.contexts[part],)

    def score(self, outputs: Outputs, dtype: str, *, tolerance: float = 1e-3) -> Verification:
        """A fact is recalled if every target of it is."""
        return score_leads(
            self,
            self.targets,
            outputs,
            dtype,
            context_text=lambda i: self.text(self.contexts[i]),
            target_text=self.vocabulary.token,
        )
