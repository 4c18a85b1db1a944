"""What the statements of Dana, Pydi, Chevaleyre 2025 have in common: capacity, conditions, parameters."""

from __future__ import annotations

from rote.config import Architecture
from rote.theorems import Condition, Setting, condition

__all__ = ["association_capacity", "conditions", "feature_rank", "formula"]


def association_capacity(arch: Architecture) -> int:
    """H d_h + d."""
    return arch.n_heads * arch.d_head + arch.d_model


def feature_rank(arch: Architecture, distinct_last: int) -> int:
    """The rank of the features of the heads and of the skip, for contexts that vary enough.

    A head averages token and position vectors, so its output varies in at most N + S - 2 directions; the skip sees only
    the L distinct last tokens. With a context of one token every head repeats the skip.
    """
    skip = min(arch.d_model, distinct_last)
    if arch.context == 1:
        return skip
    return arch.n_heads * min(arch.d_head, arch.vocab + arch.context - 2) + skip


def formula(arch: Architecture) -> str:
    return f"H d_h + d = {arch.n_heads} * {arch.d_head} + {arch.d_model} = {association_capacity(arch):,}"


def conditions(setting: Setting) -> tuple[Condition, ...]:
    """The conditions of the association results, with the rank condition that the paper leaves out."""
    arch = setting.arch
    d, n, s = arch.d_model, arch.vocab, arch.context
    last = setting.distinct_last
    if last is None:
        enough = False if n < d else None
        seen = f"a vocabulary of {n}" if n < d else "the data must show"
        tail = f"at least {d} distinct last tokens needed, {seen}" + (" has fewer" if n < d else " them")
    else:
        enough = last >= d
        tail = f"{last} distinct last tokens, needs {d}"
    return (
        condition(
            "distinct contexts",
            False if setting.shared_context else None,
            "a shared context is no distinct context" if setting.shared_context else "depends on the data",
        ),
        condition("width of heads", arch.d_head <= d, f"d_head = {arch.d_head}, at most d_model = {d}"),
        condition("context of two or more", s >= 2, f"context = {s}; a head on one token repeats the skip connection"),
        condition("rank condition", d <= n + s - 2, f"d <= N + S - 2: {d} against {n} + {s} - 2 = {n + s - 2}"),
        condition("distinct last tokens", enough, tail),
    )
