"""The tries of a search for a capacity, kept one by one, so that an interrupted search goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rote.config import content_hash
from rote.measurement.cell import Cell
from rote.measurement.journal import Journal

__all__ = ["Tries", "Try"]

SWEEP = "measure"
"""What the journal calls them."""


@dataclass(frozen=True)
class Try:
    """So many facts for one seed of a search."""

    cell: Cell
    count: int

    @property
    def seed(self) -> int:
        return self.cell.seed

    @property
    def hash(self) -> str:
        return content_hash(self.to_dict())

    @property
    def group(self) -> str:
        return self.cell.group

    @property
    def short(self) -> str:
        return f"{self.count:,} facts, {self.cell.short}"

    @property
    def runner(self) -> Callable[..., list[dict[str, Any]]]:
        return self.cell.runner

    def to_dict(self) -> dict[str, Any]:
        return {**self.cell.to_dict(), "tried": self.count}


class Tries:
    """What was tried before, and where to keep what is tried now; nowhere without a journal."""

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal
        rows = () if journal is None else journal.rows()
        self._known = {str(row["hash"]): row for row in rows if row["sweep"] == SWEEP}

    def get(self, cell: Cell, count: int) -> Mapping[str, Any] | None:
        """What was found then."""
        return self._known.get(Try(cell, count).hash)

    def put(self, findings: Mapping[tuple[Cell, int], Mapping[str, Any]]) -> None:
        """Keep what was found; a sentence says whether it was `good`."""
        if self._journal is not None and findings:
            tried = [Try(cell, count) for cell, count in findings]
            self._journal.put(
                SWEEP, tried, [{"status": "done", "n_facts": n, **one} for (_, n), one in findings.items()]
            )
