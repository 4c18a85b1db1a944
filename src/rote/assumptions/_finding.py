"""What a check says about one assumption."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """One assumption held against data.

    `holds` is True or False only where that is shown, and None where it is not. `lower` and `upper` enclose the
    quantity that the assumption is about, `witness` shows an upper bound or a failure (indices counted from 0),
    `offenders` are the first examples that break the assumption, and `theorems` are the results that rest on it.
    """

    assumption: str
    holds: bool | None
    explanation: str
    lower: float | int | None = None
    upper: float | int | None = None
    witness: list[Any] | None = None
    offenders: list[Any] = field(default_factory=list)
    n_offenders: int = 0
    theorems: tuple[str, ...] = ()
    detail: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "assumption": self.assumption,
            "holds": "unknown" if self.holds is None else self.holds,
            "lower": self.lower,
            "upper": self.upper,
            "witness": self.witness,
            "offenders": self.offenders,
            "n_offenders": self.n_offenders,
            "explanation": self.explanation,
            "theorems": list(self.theorems),
            "detail": self.detail,
        }
