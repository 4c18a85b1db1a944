"""Recall of labels: networks whose output is the number of the label itself, and not a score for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.referee.recall import Failure, Verification

__all__ = ["label_numbers", "score_labels"]

_SHOWN = 10


def label_numbers(targets: npt.NDArray[np.int64], labels: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """The label of every target; -2 for a target that no label stands for, which no network can give."""
    spelled = np.array(labels, dtype=np.int64)
    order = np.argsort(spelled)
    at = np.minimum(np.searchsorted(spelled[order], targets), len(order) - 1)
    return np.where(spelled[order][at] == targets, order[at], -2)


def score_labels(
    wanted: npt.NDArray[np.int64],
    got: npt.NDArray[Any],
    dtype: str,
    *,
    context_text: Callable[[int], str],
    label_text: Callable[[float], str],
    evaluator: str | None = None,
) -> Verification:
    """Compare outputs (T,) or (T, n) with the labels; a fact is recalled if every output of it is right.

    The margin is what the largest error leaves of 1/2, the distance at which another label is nearer.
    """
    error = np.abs(got.astype(np.float64) - wanted).reshape(len(wanted), -1)
    error = np.where(np.isfinite(error), error, np.inf)
    worst = error.max(axis=1)
    margin = 0.5 - worst
    lost = np.flatnonzero(~(margin > 0))
    failures = []
    for row in lost[:_SHOWN]:
        at = int(np.argmax(error[row]))
        want, have = wanted.reshape(len(wanted), -1)[row, at], got.reshape(len(wanted), -1)[row, at]
        failures.append(
            Failure(
                int(row) + 1,
                context_text(int(row)),
                label_text(float(want)),
                label_text(float(have)),
                float(margin[row]),
            )
        )
    return Verification(len(wanted), len(lost), float(margin.min()), dtype, tuple(failures), evaluator=evaluator)
