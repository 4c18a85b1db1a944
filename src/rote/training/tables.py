"""Facts of several replicas as tensors, facts innermost; shorter tables are padded with weight zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from rote.data import FactTable, VectorTable
from rote.errors import ShapeError

__all__ = ["Stack", "TokenStack", "VectorStack"]


@dataclass(frozen=True)
class _Stack:
    """What both kinds have: targets (R, T), and weights (R, T), one for a fact, zero for padding, more for repeats."""

    contexts: Tensor
    targets: Tensor
    weights: Tensor

    @property
    def replicas(self) -> int:
        return int(self.targets.shape[0])

    @property
    def n_facts(self) -> int:
        return int(self.targets.shape[1])

    def to(self, device: torch.device) -> Self:
        moved = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **moved)


@dataclass(frozen=True)
class TokenStack(_Stack):
    """Contexts (R, S, T)."""

    @classmethod
    def of(cls, tables: Sequence[FactTable]) -> TokenStack:
        """One table a replica."""
        if not tables:
            raise ShapeError("a stack needs at least one table.")
        if len({table.context for table in tables}) > 1:
            raise ShapeError("tables of one stack must have contexts of one length.")
        most = max(table.n_facts for table in tables)
        contexts = np.zeros((len(tables), tables[0].context, most), dtype=np.int64)
        targets = np.zeros((len(tables), most), dtype=np.int64)
        weights = np.zeros((len(tables), most), dtype=np.float32)
        for r, table in enumerate(tables):
            contexts[r, :, : table.n_facts] = table.contexts.T
            targets[r, : table.n_facts] = table.targets
            weights[r, : table.n_facts] = 1.0
        return cls(torch.from_numpy(contexts), torch.from_numpy(targets), torch.from_numpy(weights))

    def part(self, facts: slice) -> TokenStack:
        return TokenStack(self.contexts[:, :, facts], self.targets[:, facts], self.weights[:, facts])

    def columns(self, chosen: Tensor) -> TokenStack:
        """Other facts in each replica: `chosen` (R, B) are columns."""
        at = chosen[:, None, :].expand(-1, self.contexts.shape[1], -1)
        return TokenStack(self.contexts.gather(2, at), self.targets.gather(1, chosen), self.weights.gather(1, chosen))


@dataclass(frozen=True)
class VectorStack(_Stack):
    """Queries (R, d, T), contexts (R, n, d) when shared or (R, T, n, d).

    `common` is how many of the leading context rows all examples have alike (n when shared).
    """

    queries: Tensor
    common: int = 0

    @classmethod
    def of(cls, tables: Sequence[VectorTable]) -> VectorStack:
        if not tables:
            raise ShapeError("a stack needs at least one table.")
        first = tables[0]
        kinds = {(t.shared, t.context, t.d_model, t.n_classes is None) for t in tables}
        if len(kinds) > 1:
            raise ShapeError("tables of one stack must agree in context, width, sharing and kind of target.")
        most = max(t.n_examples for t in tables)
        common = first.context if first.shared else min(_common(t) for t in tables)
        kind = np.float32 if first.n_classes is None else np.int64
        queries = np.zeros((len(tables), first.d_model, most), dtype=np.float32)
        targets = np.zeros((len(tables), most), dtype=kind)
        weights = np.zeros((len(tables), most), dtype=np.float32)
        shape = (first.context, first.d_model) if first.shared else (most, first.context, first.d_model)
        contexts = np.zeros((len(tables), *shape), dtype=np.float32)
        for r, t in enumerate(tables):
            count = t.n_examples
            queries[r, :, :count] = t.queries.T
            targets[r, :count] = t.targets
            weights[r, :count] = 1.0
            if first.shared:
                contexts[r] = t.contexts
            else:
                contexts[r, :count] = t.contexts
                # Padding repeats the first context, so that common rows stay common.
                contexts[r, count:] = t.contexts[:1]
        contexts_, targets_, weights_, queries_ = map(torch.from_numpy, (contexts, targets, weights, queries))
        return cls(contexts_, targets_, weights_, queries_, common)

    @property
    def shared(self) -> bool:
        return self.contexts.ndim == 3

    def part(self, facts: slice) -> VectorStack:
        contexts = self.contexts if self.shared else self.contexts[:, facts]
        return VectorStack(
            contexts, self.targets[:, facts], self.weights[:, facts], self.queries[:, :, facts], self.common
        )

    def columns(self, chosen: Tensor) -> VectorStack:
        at = chosen[:, None, :].expand(-1, self.queries.shape[1], -1)
        rows = torch.arange(self.replicas, device=chosen.device)[:, None]
        contexts = self.contexts if self.shared else self.contexts[rows, chosen]
        return VectorStack(
            contexts,
            self.targets.gather(1, chosen),
            self.weights.gather(1, chosen),
            self.queries.gather(2, at),
            self.common,
        )


Stack = TokenStack | VectorStack


def _common(table: VectorTable) -> int:
    """Leading rows that are the same in all contexts."""
    same = (table.contexts == table.contexts[:1]).all(axis=(0, 2))
    return int(np.argmin(same)) if not same.all() else table.context
