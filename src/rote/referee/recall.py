"""Recall of every fact: how many come back, by which margin, and which do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rote.data import FactTable, VectorTable

__all__ = ["Failure", "Verification", "score_facts", "score_vectors"]

_SHOWN = 10


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
            "margin": _plain(self.margin),
        }


@dataclass(frozen=True)
class Verification:
    """What was checked, and how it went.

    A fact is recalled if its target's logit is strictly the largest of the whole vocabulary; the margin is its lead
    over the runner-up, negative for a lost fact. Real targets are recalled within a tolerance; the margin is what the
    largest error leaves of it.
    """

    n_facts: int
    n_failed: int
    min_margin: float
    dtype: str
    failures: tuple[Failure, ...]
    max_error: float | None = None
    evaluator: str | None = None
    """How an exact network was run: by the generic evaluator, or grouped after a check that it is canonical."""

    @property
    def recall(self) -> float:
        return (self.n_facts - self.n_failed) / self.n_facts

    def to_dict(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "recall": self.recall,
            "n_facts": self.n_facts,
            "n_failed": self.n_failed,
            "min_margin": _plain(self.min_margin),
            "dtype": self.dtype,
            "failures": [failure.to_dict() for failure in self.failures],
        }
        if self.max_error is not None:
            record["max_error"] = _plain(self.max_error)
        if self.evaluator is not None:
            record["evaluator"] = self.evaluator
        return record


def _plain(value: float) -> float | None:
    """A number that JSON knows: not-a-number and infinity become null."""
    return float(value) if math.isfinite(value) else None


def _chunks(n: int, size: int) -> Iterator[slice]:
    for start in range(0, n, size):
        yield slice(start, min(n, start + size))


def score_facts(
    table: FactTable,
    logits: Callable[[Tensor], Tensor],
    dtype: str,
    *,
    chunk: int = 4096,
    on_progress: Callable[[int, int], None] | None = None,
) -> Verification:
    """Run every fact through `logits` (contexts to logits over the table's vocabulary) and compare."""
    contexts, targets = torch.from_numpy(table.contexts.copy()), torch.from_numpy(table.targets.copy())
    failures: list[Failure] = []
    failed, worst = 0, float("inf")
    for part in _chunks(table.n_facts, chunk):
        margin, rival = _margins(logits(contexts[part]), targets[part])
        lost = ~(margin > 0)
        failed += int(lost.sum())
        worst = _worse(worst, margin)
        for row in lost.nonzero()[: _SHOWN - len(failures), 0].tolist():
            fact = part.start + row
            failures.append(
                Failure(
                    fact + 1,
                    " ".join(table.vocabulary.token(int(t)) for t in table.contexts[fact]),
                    table.vocabulary.token(int(table.targets[fact])),
                    table.vocabulary.token(int(rival[row])),
                    float(margin[row]),
                )
            )
        if on_progress is not None:
            on_progress(part.stop, failed)
    return Verification(table.n_facts, failed, worst, dtype, tuple(failures))


def _worse(worst: float, margin: Tensor) -> float:
    """The smaller of the two; not a number counts as a loss without bound."""
    if torch.isnan(margin).any():
        return float("-inf")
    return min(worst, float(margin.min()))


def _margins(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Lead of the target's score over the best other one, and which that is."""
    own = scores.gather(1, targets[:, None])[:, 0].to(torch.float64)
    others = scores.scatter(1, targets[:, None], float("-inf"))
    best, rival = others.max(dim=1)
    return own - best.to(torch.float64), rival


def score_vectors(
    table: VectorTable,
    outputs: Callable[[Tensor, Tensor], Tensor],
    dtype: str,
    *,
    tolerance: float,
    chunk: int = 1024,
) -> Verification:
    """The same for vectors: class labels by argmax, real targets within `tolerance` of their scale."""
    contexts, queries = torch.from_numpy(table.contexts.copy()), torch.from_numpy(table.queries.copy())
    targets = torch.from_numpy(table.targets.copy())
    labels = not torch.is_floating_point(targets)
    scale = 1.0 if labels else max(1.0, float(targets.abs().max()))
    failures: list[Failure] = []
    failed, worst, largest = 0, float("inf"), 0.0
    for part in _chunks(table.n_examples, chunk):
        got = outputs(contexts if table.shared else contexts[part], queries[part])
        if labels:
            margin, rival = _margins(got, targets[part])
            shown = [str(int(r)) for r in rival]
        else:
            goal = targets[part].reshape(len(got), -1)
            error = (got.to(torch.float64) - goal).abs().amax(dim=1) / scale
            largest = float("inf") if torch.isnan(error).any() else max(largest, float(error.max()))
            margin, shown = tolerance - error, [f"{float(g[0]):.6g}" for g in got]
        lost = ~(margin > 0)
        failed += int(lost.sum())
        worst = _worse(worst, margin)
        for row in lost.nonzero()[: _SHOWN - len(failures), 0].tolist():
            at = part.start + row
            want = str(int(targets[at])) if labels else f"{float(targets[at].reshape(-1)[0]):.6g}"
            failures.append(Failure(at + 1, f"example {at + 1}", want, shown[row], float(margin[row])))
    return Verification(table.n_examples, failed, worst, dtype, tuple(failures), None if labels else largest)
