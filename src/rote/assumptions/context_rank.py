"""Assumption 2 of Mahdavi, Liao, Thrampoulidis 2024: every context matrix has rank n, one for each of its rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rote.assumptions._circuits import shrink
from rote.assumptions._common import SHOWN, words
from rote.assumptions._finding import Finding
from rote.assumptions._independence import CLEAR, DEPENDENT, DOUBTFUL, Rows, judge_many, rank_verdict
from rote.assumptions._vectors import Vectors

__all__ = ["CHECKS", "NAME", "THEOREMS", "check", "full_rank"]

NAME = "rank of contexts"
THEOREMS = ("mahdavi2024_thm1", "mahdavi2024_kruskal")

_MEASURED = 16


def full_rank(contexts: npt.NDArray[np.float64], roundoff: float) -> tuple[npt.NDArray[np.int8], Rows]:
    """One verdict for each context (T x n x d): 1 rank n, 0 less, -1 too close to call; and the rows they rest on."""
    count, n, d = contexts.shape
    rows = Rows(contexts.reshape(-1, d), roundoff)
    return judge_many(rows, np.arange(count * n).reshape(count, n)), rows


def check(data: Vectors, d_model: int | None, *, rng: np.random.Generator) -> list[Finding]:
    """The smallest rank of a context against n, with the gap in the singular values."""
    n, d = data.context, data.d_model
    blocks = data.contexts.reshape(-1, n, d)
    verdicts, rows = full_rank(blocks, data.context_roundoff)
    bad, open_ = np.flatnonzero(verdicts == DEPENDENT), np.flatnonzero(verdicts == DOUBTFUL)
    worst = _worst(rows, len(blocks), n, bad, open_)
    gap = rank_verdict(rows.unit[worst], rows.vectors[worst], rows.roundoff)
    holds = False if bad.size else None if open_.size else True
    what = "the shared context" if data.shared else f"context {int(worst[0]) // n + 1:,}"
    total = "the context has" if len(blocks) == 1 else f"all {len(blocks):,} contexts have"
    witness: list[int] | None = None
    if holds is False:
        part = "" if data.shared else f" in {bad.size:,} of {len(blocks):,} contexts, first {words(bad[:6].tolist())}"
        said = f"rank {n} is needed and missing{part}"
        if n > d:
            said += f": {n} rows in {d} dimensions"
        circuit = shrink(rows, worst[: d + 1])
        circuit = shrink(rows, worst) if circuit is None and n <= d else circuit
        if circuit is not None:
            witness = [int(i) % n for i in circuit]
            told = f"row {words(witness)} of {what} is zero" if len(witness) == 1 else ""
            said += f"; {told or f'rows {words(witness)} of {what} are dependent'}"
    elif holds is None:
        said = f"rank {n} is needed; {open_.size:,} of {len(blocks):,} contexts are too close to call"
    else:
        said = f"{total} rank {n}"
    span = f"{gap.lower}" if gap.rank is not None else f"{gap.lower} to {gap.upper}"
    values = f"smallest singular value {gap.above:.2g}"
    if gap.lower < min(n, d):
        rest = "less than rounding explains" if gap.below <= gap.noise else f"{gap.below:.2g}"
        values = f"singular values down to {gap.above:.2g} and then {rest}"
    said += (
        f". Closest is {what}: rank {span}, {values} (rows scaled to length 1); rounding explains "
        f"{gap.noise:.1g}, and a value counts from {CLEAR:g} times that."
    )
    return [
        Finding(
            assumption=NAME,
            holds=holds,
            explanation=said,
            lower=gap.lower,
            upper=gap.upper,
            witness=witness,
            offenders=bad[:SHOWN].tolist(),
            n_offenders=int(bad.size),
            theorems=THEOREMS,
            detail={
                "needed": n,
                "closest_context": int(worst[0]) // n,
                "singular_above": gap.above,
                "singular_below": gap.below,
                "rounding": gap.noise,
                "doubtful": int(open_.size),
                "share_full_rank": float(np.mean(verdicts == 1)),
            },
        )
    ]


def _worst(
    rows: Rows, count: int, n: int, bad: npt.NDArray[np.intp], open_: npt.NDArray[np.intp]
) -> npt.NDArray[np.int64]:
    """The rows of the context that is closest to losing rank (or has lost most)."""
    if bad.size or open_.size:
        candidates = (bad if bad.size else open_)[:_MEASURED]
    else:
        # Determinants of Gram matrices point at the few that are worth measuring.
        unit = rows.unit.reshape(count, n, rows.d)
        least = np.empty(count)
        step = max(1, 2_000_000 // (n * max(n, rows.d)))
        for start in range(0, count, step):
            block = unit[start : start + step]
            least[start : start + step] = np.linalg.eigvalsh(block @ block.transpose(0, 2, 1))[:, 0]
        candidates = np.argsort(least, kind="stable")[:_MEASURED]
    best, found = None, np.arange(n)
    for i in candidates.tolist():
        which = np.arange(i * n, (i + 1) * n)
        verdict = rank_verdict(rows.unit[which], rows.vectors[which], rows.roundoff)
        key = (verdict.lower, verdict.above)
        if best is None or key < best:
            best, found = key, which
    return found.astype(np.int64)


CHECKS = {"vectors": check}
