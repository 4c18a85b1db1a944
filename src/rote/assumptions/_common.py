"""What several assumptions share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.assumptions._finding import Finding
from rote.assumptions._vectors import Vectors
from rote.data._arrays import IntArray
from rote.solvers.rows import distinct_rows, first_equal

if TYPE_CHECKING:
    from rote.assumptions._kruskal import Kruskal

__all__ = ["SHOWN", "Data", "distinctness", "every_row", "query_kruskal", "row_ids", "words"]

Data = Any
"""A table whose contexts are token ids, or `Vectors`, whose `words` are None."""

SHOWN = 10
"""Offenders that are listed; all are counted."""
SAMPLES = 2_000


def words(indices: Iterable[int], limit: int = 6) -> str:
    """Places for people, counted from 1: `3, 17 and 204`."""
    shown = [f"{i + 1:,}" for i in indices]
    more = f" and {len(shown) - limit:,} more" if len(shown) > limit else ""
    if more or len(shown) < 2:
        return ", ".join(shown[:limit]) + more
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def row_ids(data: Data) -> IntArray:
    """The contexts (T x n, or 1 x n if shared) with equal tokens or vectors given equal numbers."""
    if data.words is not None:
        return np.asarray(data.contexts)

    def number() -> IntArray:
        rows = data.contexts.reshape(-1, data.d_model)
        return distinct_rows(rows)[1].reshape(-1, data.context)

    ids: IntArray = data.keep("row ids", number)
    return ids


def every_row(data: Data) -> IntArray:
    """The same with a row for every example."""
    keys = row_ids(data)
    return keys if len(keys) == data.n_facts else np.repeat(keys, data.n_facts, axis=0)


def distinctness(
    name: str, keys: IntArray, theorems: tuple[str, ...], *, said: str, pair: str, repeated: str = "one"
) -> list[Finding]:
    """The finding that no row of `keys` equals an earlier one.

    `said` has places for the numbers of distinct rows and of all rows, `pair` is said of two equal ones.
    """
    later, twin = first_equal(keys)
    distinct = len(keys) - len(later)
    text = said.format(f"{distinct:,}", f"{len(keys):,}")
    if later.size:
        text += f"; examples {words([int(twin[0]), int(later[0])])} {pair}"
        text += f", {later.size:,} repeat an earlier {repeated}" if later.size > 1 else ""
    return [
        Finding(
            assumption=name,
            holds=not later.size if theorems else None,
            explanation=text + ".",
            lower=distinct,
            upper=distinct,
            witness=[int(twin[0]), int(later[0])] if later.size else None,
            offenders=later[:SHOWN].tolist(),
            n_offenders=int(later.size),
            theorems=theorems,
        )
    ]


def query_kruskal(data: Vectors, rng: np.random.Generator) -> Kruskal:
    """The Kruskal interval of the queries; two assumptions rest on it."""
    from rote.assumptions._independence import Rows
    from rote.assumptions._kruskal import kruskal

    return data.keep("kruskal", lambda: kruskal(Rows(data.queries, data.query_roundoff), rng))
