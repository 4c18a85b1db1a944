"""What checks say: a `Finding` for each assumption, and all of them together with what follows for the theorems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from rote.plot.sheet import Grid, Sheet, Shown

__all__ = ["Finding", "Findings", "Usable", "usable"]


@dataclass(frozen=True)
class Finding:
    """One assumption held against data.

    `holds` is True or False only where that is shown, and None where it is not. `lower` and `upper` enclose the
    quantity that the assumption is about, `witness` shows an upper bound or a failure (indices counted from 0),
    `offenders` are the first examples that break the assumption, and `theorems` are the results that rest on it. A
    finding that none rests on is for information: it neither holds nor fails.
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

    def __post_init__(self) -> None:
        if self.informative and self.holds is not None:
            raise ValueError(f"{self.assumption}: no theorem rests on it, so it neither holds nor fails.")

    @property
    def informative(self) -> bool:
        """Nothing rests on it."""
        return not self.theorems

    @property
    def mark(self) -> str:
        """One sign for lists: it holds, it fails, it is open, or it is for information."""
        return "·" if self.informative else {True: "✓", False: "✗", None: "?"}[self.holds]

    def to_dict(self) -> dict[str, Any]:
        return {
            "assumption": self.assumption,
            "holds": None if self.informative else "unknown" if self.holds is None else self.holds,
            "informative": self.informative,
            "lower": self.lower,
            "upper": self.upper,
            "witness": self.witness,
            "offenders": self.offenders,
            "n_offenders": self.n_offenders,
            "explanation": self.explanation,
            "theorems": list(self.theorems),
            "detail": self.detail,
        }


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


@dataclass(frozen=True)
class Findings(Shown, Sequence[Finding]):
    """Every assumption that was held against some data."""

    data: str
    """The data in a few words."""
    findings: tuple[Finding, ...]
    only: tuple[str, ...] | None = None
    """The theorems that were asked for; None for all."""
    foreign: tuple[str, ...] = ()
    """Those of them that speak of other kinds of data."""

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, index: int | slice) -> Finding | tuple[Finding, ...]:
        return self.findings[index]

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def usable(self) -> list[Usable]:
        """What follows for the theorems that were asked for."""
        return [one for one in usable(self.findings) if self.only is None or one.theorem in self.only]

    @property
    def passed(self) -> bool:
        """No assumption fails, and no theorem was asked for that speaks of other data."""
        return not self.foreign and all(finding.holds is not False for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        verdicts = [
            {"theorem": one.theorem, "verdict": one.verdict, "reasons": list(one.reasons)} for one in self.usable
        ]
        return {"data": self.data, "findings": [finding.to_dict() for finding in self.findings], "usable": verdicts}

    def sheet(self) -> Sheet:
        rows = tuple((finding.mark, finding.assumption, finding.explanation) for finding in self.findings)
        columns = ("", "assumption", "what was found")
        heads = {True: "may be used", None: "open", False: "may not be used"}
        notes = [
            f"{heads[one.verdict]:<16} {one.theorem}" + (f": {', '.join(one.reasons)}" if one.reasons else "")
            for verdict in heads
            for one in self.usable
            if one.verdict is verdict
        ]
        other = "speaks of other data than these: vectors, not tokens, or the reverse; it does not apply."
        notes += [f"{key} {other}" for key in self.foreign]
        spoken = {*self.foreign, *(one.theorem for one in self.usable)}
        silent = [key for key in self.only or () if key not in spoken]
        notes += [f"{key} makes no assumption that data could break." for key in silent]
        if self.only is None:
            notes.append("All other theorems make no assumption that can be checked on these data.")
        grids = (Grid(columns, rows, left=columns[1:]),) if rows else ()
        return Sheet(self.data, grids=grids, notes=tuple(notes))

    def __repr__(self) -> str:
        failing = [finding.assumption for finding in self.findings if finding.holds is False]
        said = f"{len(failing)} fail: {', '.join(failing)}" if failing else "none fails"
        return f"Findings({self.data}; {len(self.findings)} assumptions, {said})"
