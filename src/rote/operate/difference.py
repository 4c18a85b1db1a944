"""What an edit changes, judged by the difference: facts that can notice it are run, all others are as they were.

The referee tells, from the old files and the new ones, which facts have an input other than 0 where weights differ. For
all others every number on the way is the same, so what the old certificate says about them still holds: how many are
recalled, and the smallest margin, unless one of the facts in question had it. Where the referee cannot tell, all facts
are run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rote import pipeline
from rote.constructions import Progress, quiet
from rote.data.verification import Verification
from rote.memory import Memory
from rote.models import Model
from rote.referee import Stored, judge, noticing, read_stored, said_alike

if TYPE_CHECKING:
    from rote.data.table import Table

__all__ = ["Difference"]

_FIRST = 1024
"""Facts among which the smallest margin is looked for at first."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Difference:
    """An edit: the model before it, its table, the table after it, and the contexts that it speaks of."""

    memory: Memory
    before: Any
    after: Any
    keys: Rows
    run: dict[str, int] = field(default_factory=dict)
    """Facts that were run, by number format; the others could not notice."""
    _noticed: dict[str, Rows | None] = field(default_factory=dict)

    @cached_property
    def _spoken(self) -> tuple[Rows, Rows]:
        """Rows of the contexts in question before and after."""
        return _places(self.before.contexts, self.keys), _places(self.after.contexts, self.keys)

    @cached_property
    def _old(self) -> Stored:
        return read_stored(self.memory.folder, self.memory.model.kind)

    @property
    def others(self) -> int:
        """Facts that nothing was said about."""
        return int(self.before.n_facts - len(self._spoken[0]))

    def judged(
        self, folder: Path, model: Model, table: Table, dtype: str, *, progress: Progress = quiet
    ) -> Verification:
        """The verdict on the new files about the table after the edit."""
        certificate = self.memory.certificate
        stated, least = certificate.recall.get(dtype), certificate.min_margin.get(dtype)
        new = read_stored(folder, model.kind)
        noticed = None
        if stated is not None and least is not None and not self.memory.changed:
            noticed = self._noticing(new, dtype)
        if noticed is None or stated is None or least is None:
            self.run[dtype] = table.n_facts
            return pipeline.judged(folder, model, table, dtype, progress=progress)
        gone, spoken = self._spoken
        alike = np.setdiff1d(noticed, spoken, assume_unique=True)
        run = np.concatenate([alike, spoken])
        was = [
            judge(self._old, whole.subset(rows), dtype)
            for whole, rows in ((self.after, alike), (self.before, gone))
            if len(rows)
        ]
        found = judge(new, self.after.subset(run), dtype) if len(run) else None
        self.run[dtype] = len(run)
        mask = np.ones(table.n_facts, dtype=np.bool_)
        mask[run] = False
        rest = np.flatnonzero(mask)
        failed = round((1 - stated) * self.before.n_facts) - sum(one.n_failed for one in was)
        own = math.inf if found is None else found.min_margin
        # The rest has `least` or more: if what was run has no more than that, the rest does not matter.
        if own > least and min((one.min_margin for one in was), default=math.inf) <= least:
            least = self._least(new, rest, dtype, least)
        margins = ([least] if len(rest) else []) + ([] if found is None else [own])
        failures = () if found is None else found.failures
        return Verification(
            table.n_facts, failed + (0 if found is None else found.n_failed), min(margins), dtype, failures
        )

    def _noticing(self, new: Stored, dtype: str) -> Rows | None:
        if dtype not in self._noticed:
            mask = noticing(self._old, new, self.after, dtype)
            self._noticed[dtype] = None if mask is None else np.flatnonzero(mask)
        return self._noticed[dtype]

    def _least(self, new: Stored, rest: Rows, dtype: str, least: float) -> float:
        """The smallest margin of the rest, which is at least `least`: once somebody has that, the search is over."""
        found = math.inf
        for part in _growing(len(rest)):
            found = min(found, judge(new, self.after.subset(rest[part]), dtype).min_margin)
            self.run[dtype] += part.stop - part.start
            if found <= least:
                break
        return found

    def alike(self, folder: Path, kind: str, dtype: str) -> tuple[int, float]:
        """For how many of the facts that nothing was said about all outputs are the same, bit by bit, and how far apart
        the others are at most."""
        new = read_stored(folder, kind)
        noticed, (_, spoken) = self._noticing(new, dtype), self._spoken
        every = np.arange(self.after.n_facts) if noticed is None else noticed
        looked_at = np.setdiff1d(every, spoken, assume_unique=True)
        if not len(looked_at):
            return self.others, 0.0
        equal, apart = said_alike(self._old, new, self.after.subset(looked_at), dtype)
        return self.others - len(looked_at) + equal, apart


def _growing(count: int) -> Iterator[slice]:
    start, size = 0, _FIRST
    while start < count:
        yield slice(start, min(count, start + size))
        start, size = start + size, 4 * size


def _places(contexts: Any, keys: Rows) -> Rows:
    """The rows of some contexts, where they are there."""
    spoken = {key.tobytes() for key in keys}
    near = np.flatnonzero(np.isin(contexts[:, -1], keys[:, -1])).tolist()
    return np.array([row for row in near if contexts[row].tobytes() in spoken], dtype=np.int64)
