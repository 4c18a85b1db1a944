"""How many facts the features of one attention layer on tokens can tell apart, read off the facts before any solve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rote.data._arrays import IntArray
from rote.errors import AssumptionError, DataError
from rote.solvers.rows import first_equal

__all__ = ["RankLimit", "check_contexts", "rank_limit"]


@dataclass(frozen=True)
class RankLimit:
    """The most facts the features can tell apart, and why."""

    value: int
    nominal: int  # H d_h + d, the corollary's number
    reason: str


def rank_limit(contexts: npt.ArrayLike, vocab: int, n_heads: int, d_model: int, d_head: int) -> RankLimit:
    """The rank of the features [x_S; heads] for random weights, from the data alone.

    A head's output is an average of the vectors x_{s,v} over the (position, token) pairs of the context. These pairs
    are the edges of a bipartite graph between positions and tokens, and since x_{s,v} = W_E[v] + W_pos[s] they span
    an affine space of dimension D = vertices - components - 1 (N + S - 2 if the graph is connected). The heads
    contribute H min(d_h, D), the skip min(d, L) for L distinct last tokens. The same holds for the facts with any
    given set of last tokens, and the limit is the least of (rank of those) + (number of other facts).
    """
    ctx = check_contexts(contexts, vocab)
    n_facts, length = ctx.shape
    nominal = n_heads * d_head + d_model
    width = min(d_head, d_model)
    tokens, last, counts = np.unique(ctx[:, -1], return_inverse=True, return_counts=True)
    if length == 1:
        value = min(n_facts, d_model, len(tokens))
        reason = f"contexts of one token have nothing to mix: min(d_model {d_model}, {len(tokens)} tokens)"
        return RankLimit(value, nominal, reason)
    order = np.argsort(-counts, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    # One row per (group of last token, position, token) that occurs, largest groups first.
    keys = (place[last][:, None] * length + np.arange(length)) * vocab + ctx
    edges = np.unique(keys)
    group_of, rest = np.divmod(edges, length * vocab)
    graph = _Components(length, vocab)
    value, reason = n_facts, f"{n_facts} distinct contexts"
    others, start = n_facts, 0
    for k, group in enumerate(order, start=1):
        others -= int(counts[group])
        stop = int(np.searchsorted(group_of, k, side="left"))
        capped = graph.affine_dimension >= width and k > d_model
        if capped and k < len(order):
            continue  # more groups no longer add rank, only take facts from `others`: the last one decides
        for edge in rest[start:stop].tolist():
            graph.join(edge // vocab, length + edge % vocab)
        start = stop
        spread = graph.affine_dimension
        bound = n_heads * min(width, spread) + min(d_model, k) + others
        if bound < value:
            value = bound
            heads = f"{n_heads} heads x min(d_head {width}, {spread} from tokens and positions)"
            reason = f"{heads} + skip min(d_model {d_model}, {k} last tokens)"
            reason += f" + {others} facts with other last tokens" if others else ""
    return RankLimit(value, nominal, reason)


class _Components:
    """Union-find over the positions and tokens that occur."""

    def __init__(self, length: int, vocab: int) -> None:
        self._parent = list(range(length + vocab))
        self._rank = 0  # edges that joined two components: vertices - components

    @property
    def affine_dimension(self) -> int:
        return max(self._rank - 1, 0)

    def _find(self, node: int) -> int:
        while self._parent[node] != node:
            self._parent[node] = self._parent[self._parent[node]]
            node = self._parent[node]
        return node

    def join(self, a: int, b: int) -> None:
        a, b = self._find(a), self._find(b)
        if a != b:
            self._parent[a] = b
            self._rank += 1


def check_contexts(contexts: npt.ArrayLike, vocab: int) -> IntArray:
    raw = np.asarray(contexts)
    if raw.ndim != 2 or 0 in raw.shape or not np.issubdtype(raw.dtype, np.integer):
        raise DataError(f"need contexts (T, S) of integer token ids, T and S at least 1; got {raw.dtype} {raw.shape}.")
    ctx = np.ascontiguousarray(raw, dtype=np.int64)
    if ctx.min() < 0 or ctx.max() >= vocab:
        row = int(np.flatnonzero(((ctx < 0) | (ctx >= vocab)).any(axis=1))[0])
        raise DataError(f"token ids must lie in 0..{vocab - 1}; context {row} is {ctx[row].tolist()}.")
    later, twin = first_equal(ctx)
    if len(later):
        raise AssumptionError(
            f"distinct contexts are needed (Assumption 1); facts {twin[0] + 1} and {later[0] + 1} share "
            f"{ctx[later[0]].tolist()} ({len(later)} repeats in all). Drop the duplicates."
        )
    return ctx
