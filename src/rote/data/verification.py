"""What a referee says about a model and a table: how many facts come back, by which margin, and which do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rote.plot.sheet import Sheet, Shown

if TYPE_CHECKING:
    from rote.data.outputs import Outputs
    from rote.data.table import Table

__all__ = [
    "NOT_MEASURED",
    "SHOWN_FAILURES",
    "Contradiction",
    "Failure",
    "Tally",
    "Verification",
    "finite",
    "score_leads",
    "unknown_sentence",
]

NOT_MEASURED = "\0"
"""In the place of a value: a part of a claim that cannot be measured again."""
SHOWN_FAILURES = 10
"""Lost facts that are listed; all are counted."""


def finite(value: float) -> float | None:
    """A number for JSON; null where it is infinite or not a number."""
    return float(value) if math.isfinite(value) else None


def unknown_sentence(record: Mapping[str, int]) -> str:
    """What a certificate says about contexts that are no facts: `bits`, how many were `tried`, and `told` apart."""
    return (
        f"{record['told']:,} of {record['tried']:,} contexts that are no facts are told as unknown, with "
        f"{record['bits']} bits a key"
    )


@dataclass(frozen=True)
class Failure:
    """A fact that is lost."""

    fact: int
    """Its number, from 1."""
    context: str
    expected: str
    got: str
    margin: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "fact": self.fact,
            "context": self.context,
            "expected": self.expected,
            "got": self.got,
            "margin": finite(self.margin),
        }


@dataclass(frozen=True)
class Contradiction:
    """A claim of a certificate, by its name there, and what was found instead; None stands for nothing."""

    claim: str
    stated: Any
    found: Any

    def to_dict(self) -> dict[str, Any]:
        return {"claim": self.claim, "stated": self.stated, "found": self.found}

    def __str__(self) -> str:
        return f"{self.claim} is stated as {_brief(self.stated)}, and found to be {_brief(self.found)}"


def _brief(value: Any) -> str:
    text = "nothing" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True)
class Verification(Shown):
    """What was checked, and how it went.

    A fact is recalled if its target's score is strictly the largest; the margin is its lead over the runner-up,
    negative for a lost fact. Real targets are recalled within a tolerance; the margin is what the largest error leaves
    of it. Kinds of tables with another idea of recall subclass this record and say so in `measures`.
    """

    n_facts: int
    n_failed: int
    min_margin: float
    dtype: str
    failures: tuple[Failure, ...] = ()
    max_error: float | None = None
    evaluator: str | None = None
    """How an exact network was run: by the generic evaluator, or grouped after a check that it is canonical."""
    judged_by: str = "referee"
    """The referee's own forward pass, or, for a kind of model that it has none for, the model's."""
    measures: Mapping[str, Any] = field(default_factory=dict)
    """What else a kind of table has measured."""
    unknown: Mapping[str, int] | None = None
    """Contexts that are no facts: how many were tried, and told as such, for models that can say so."""
    others: tuple[Verification, ...] = ()
    """The same facts in the other number formats of the certificate, where they were asked for."""
    checked: tuple[str, ...] = ()
    """Claims of the certificate that were held against what was found."""
    unchecked: tuple[str, ...] = ()
    """Those that cannot be found out again, or only in other number formats."""
    contradicted: tuple[Contradiction, ...] = ()
    """Those that are not what was found."""
    changed_files: tuple[str, ...] = ()
    """Files of weights that are not those of the certificate, whose claims are then history."""
    promised: float | None = None
    """The recall that the certificate stated for the weights that it was made for."""

    @property
    def recall(self) -> float:
        return (self.n_facts - self.n_failed) / self.n_facts

    @property
    def passed(self) -> bool:
        """Whether a build may hand the model over."""
        return self.n_failed == 0

    @property
    def firm(self) -> bool:
        """Passed, and not only because sums were rounded in this order: errors of real targets, which add up from all
        weights, are within a quarter of what is allowed."""
        return self.passed and (self.max_error is None or 3 * self.max_error <= self.min_margin)

    def confirms(self, claim: Mapping[str, Any]) -> bool:
        """Whether this is at least as good as a certificate (as JSON) claims, and no claim of it is contradicted."""
        return self.passed and not self.contradicted

    def remark(self, claim: Mapping[str, Any]) -> str:
        """What the certificate of the same table adds to it, in a sentence; empty where there is nothing to add."""
        return ""

    def summary(self) -> str:
        """How it went, in half a sentence, for lists of attempts."""
        if self.passed and not self.firm:
            return f"has errors near what is allowed at {self.dtype}, which another order of sums may exceed"
        return f"lost {self.n_failed:,} of {self.n_facts:,} facts at {self.dtype}"

    def to_dict(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "recall": self.recall,
            "n_facts": self.n_facts,
            "n_failed": self.n_failed,
            "min_margin": finite(self.min_margin),
            "dtype": self.dtype,
            "judged_by": self.judged_by,
            "failures": [failure.to_dict() for failure in self.failures],
        }
        if self.max_error is not None:
            record["max_error"] = finite(self.max_error)
        if self.evaluator is not None:
            record["evaluator"] = self.evaluator
        if self.unknown is not None:
            record["unknown"] = dict(self.unknown)
        if self.changed_files:
            record |= {
                "changed_files": list(self.changed_files),
                "promised": self.promised,
                "lost_since": self.lost_since,
            }
        return {**record, **self.measures, **self.claims_record()}

    @property
    def lost_since(self) -> int | None:
        """Facts that the certificate stated, and that the changed weights do not recall."""
        return None if self.promised is None else round((self.promised - self.recall) * self.n_facts)

    def claims_record(self) -> dict[str, Any]:
        """What became of a certificate's claims, ready for JSON; empty where there was no certificate."""
        if not self.checked:
            return {}
        record: dict[str, Any] = {
            "checked": list(self.checked),
            "unchecked": list(self.unchecked),
            "contradicted": [one.to_dict() for one in self.contradicted],
        }
        return {"formats": {one.dtype: one.to_dict() for one in self.others}, **record} if self.others else record

    def sheet(self) -> Sheet:
        kept = self.n_facts - self.n_failed
        margin = "" if not math.isfinite(self.min_margin) else f", smallest margin {self.min_margin:.3g}"
        lines = [
            f"  lost: fact {one.fact}, {one.context} -> expected {one.expected}, got {one.got}"
            + (f" (margin {one.margin:.3g})" if math.isfinite(one.margin) else "")
            for one in self.failures
        ]
        if self.n_failed > len(self.failures):
            lines.append(f"  and {self.n_failed - len(self.failures):,} more")
        if self.unknown is not None:
            lines.append(unknown_sentence(self.unknown))
        if self.changed_files:
            stated = "nothing" if self.promised is None else f"{100 * self.promised:.4g} %"
            lines.append(
                f"The weights are not those of the certificate ({', '.join(self.changed_files)}), which is history: it "
                f"stated {stated} at {self.dtype}, and {self.lost_since or 0:,} facts were lost since."
            )
        return Sheet(
            f"{kept:,} of {self.n_facts:,} facts recalled",
            f" at {self.dtype} ({100 * self.recall:.4g} %){margin}",
            tuple(lines),
        )

    def __repr__(self) -> str:
        kept = self.n_facts - self.n_failed
        return f"{type(self).__name__}({kept:,} of {self.n_facts:,} facts recalled at {self.dtype})"


class Tally:
    """Margins of facts as they come in, chunk by chunk: how many are lost, the smallest, and the first losers."""

    def __init__(self) -> None:
        self.n_failed = 0
        self.min_margin = math.inf
        self.failures: list[Failure] = []

    def add(self, first: Any, margins: Any, told: Callable[[int], tuple[str, str, str]]) -> None:
        """Margins of the facts from `first` on, or of these facts; `told(row)` gives context, expected and said of a
        lost one. Of all that are lost the first ones are kept, in whatever order they come in."""
        import numpy as np

        facts = np.asarray(first) if np.ndim(first) else np.arange(first, first + len(margins))

        # What is not a number counts as a loss without bound.
        known = np.where(np.isnan(margins), -np.inf, margins)
        lost = np.flatnonzero(~(known > 0))
        self.n_failed += len(lost)
        self.min_margin = min(self.min_margin, float(known.min()))
        for row in lost[np.argsort(facts[lost], kind="stable")][:SHOWN_FAILURES].tolist():
            number = int(facts[row]) + 1
            if len(self.failures) < SHOWN_FAILURES or number < self.failures[-1].fact:
                self.failures.append(Failure(number, *told(row), float(known[row])))
                self.failures = sorted(self.failures, key=lambda one: one.fact)[:SHOWN_FAILURES]

    def result(self, table: Table, outputs: Outputs, dtype: str, max_error: float | None = None) -> Verification:
        return Verification(
            table.n_facts,
            self.n_failed,
            self.min_margin,
            dtype,
            tuple(self.failures),
            max_error,
            outputs.evaluator,
            outputs.judged_by,
        )


def score_leads(
    table: Table,
    targets: Any,
    outputs: Outputs,
    dtype: str,
    *,
    context_text: Callable[[int], str],
    target_text: Callable[[int], str],
) -> Verification:
    """Recall of targets (T,) or (T, S): recalled is a fact whose targets all lead; its margin is the least lead."""
    import numpy as np

    tally = Tally()
    whole = table.inputs(slice(0, table.n_facts))
    order, work = outputs.order(whole), outputs.work(whole)
    for part in outputs.parts(
        table.n_facts, scattered=True, work=work if work is None or order is None else work[order]
    ):
        facts = np.arange(part.start, part.stop) if order is None else order[part]
        goals = targets[facts]
        inputs = table.inputs(part) if order is None else tuple(array[facts] for array in whole)
        answers = outputs.leads(inputs, goals)
        leads, said = (np.asarray(array).reshape(len(goals), -1) for array in answers)
        leads = leads.astype(np.float64)
        at = np.where(np.isnan(leads), -np.inf, leads).argmin(axis=1)
        rows = np.arange(len(goals))
        worst, wanted, instead = leads[rows, at], goals.reshape(len(goals), -1)[rows, at], said[rows, at]

        def told(row: int, facts: Any = facts, wanted: Any = wanted, instead: Any = instead) -> tuple[str, str, str]:
            answer = int(instead[row])
            return (
                context_text(int(facts[row])),
                target_text(int(wanted[row])),
                "no answer" if answer < 0 else target_text(answer),
            )

        tally.add(facts, worst, told)
    return tally.result(table, outputs, dtype)
