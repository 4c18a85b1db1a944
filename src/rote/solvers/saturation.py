"""Memorising real vectors by softmax saturation (Mahdavi, Liao, Thrampoulidis 2024, Theorem 1).

Statement: let every context E_t (n x d) have rank n and let the queries e_t have Kruskal rank Q. With
           r = min(n, d_h, Q), one attention layer of H heads interpolates any T <= H(r-1)+1 real targets.
Notation:  H = n_heads, d_h = d_head, n = context rows, k = target dimensions; M_h = W_K^hT W_Q^h.
Source:    arXiv 2306.02010 v3.
Differs:   the induction over heads is carried out for all heads at once, since the proof needs nothing from one head
           to place the next but the list of examples already served; the saturating directions are moved to a larger
           margin after they are drawn, so that a smaller gain c saturates; for a shared context the linear solve is
           done in closed form (an H x H system when n = r, none when n > r).

What the proof does for one head: r-1 examples (its group) see a score matrix M0 of rank r-1 that sends each to its own
token; every other example sees in addition c u v^T, where v is orthogonal to the group's queries, with c so large that
the head's softmax is one-hot on it, hence blind to the labels. Z is then block triangular and can be solved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from rote.data._arrays import FloatArray as Array
from rote.data._arrays import IntArray
from rote.errors import AssumptionError, CapacityError, UsageError
from rote.solvers.saturation_groups import order_groups, partition, widen_margins
from rote.solvers.vector_layer import (
    LayerWeights,
    MinNorm,
    Precision,
    RealArray,
    as_examples,
    as_targets,
    attention,
    features,
    predict,
    readout_weights,
)

__all__ = ["SaturationReport", "SaturationResult", "check_queries", "saturation_layer"]


_SATURATED = 1e-6  # an example counts as saturated in a head when its largest weight exceeds 1 - this
_RANK_TOLERANCE = 1e-11
_PARTITIONS = 12  # draws of the partition before a badly conditioned one is taken (small shared contexts with n = r)
_TRIES = 16  # draws of a saturating direction for each head
_BETA = 8.0  # the score with which a served example picks its token
_DELTA = 1e-9  # softmax mass outside the largest weight of a saturated example
_MEASURE_Z_UP_TO = 3000  # above this many examples a closed form does not also factorise Z to report its condition


@dataclass(frozen=True)
class SaturationReport:
    """What the proof promises, as measured on the weights that were built."""

    r: int
    groups: tuple[IntArray, ...]  # the examples each head serves; example `base` is served by none
    base: int
    saturated_share: Array  # per head, of the examples outside its group: largest weight > 1 - 1e-6
    c_median: float
    c_max: float
    readout: str  # "closed form" or "least squares"
    rank: int | None  # of Z; None where a closed form made factorising Z needless
    cond: float | None  # of Z
    block_cond: float | None  # closed form only: the worst condition number that was solved with


@dataclass(frozen=True)
class SaturationResult:
    """`weights` in float64; `weights32` with the same W_Q, W_K and a readout solved on the float32 features."""

    weights: LayerWeights
    weights32: LayerWeights
    report: SaturationReport


def saturation_layer(
    contexts: npt.ArrayLike,
    queries: npt.ArrayLike,
    targets: npt.ArrayLike,
    *,
    n_heads: int,
    d_head: int,
    rng: np.random.Generator,
    n_classes: int | None = None,
) -> SaturationResult:
    """Build the layer of Theorem 1 and measure it.

    contexts (T, n, d), or (n, d) shared by all; queries (T, d); targets (T,) or (T, k) real, or integer labels with
    `n_classes` (then k = n_classes one-hot targets, read by argmax). The Kruskal rank of the queries is taken to be
    their matrix rank, an upper bound, and the construction refuses where independence fails.
    """
    ctx, qry, shared = as_examples(contexts, queries)
    y = as_targets(targets, qry.shape[0], n_classes)
    n, n_examples = ctx.shape[-2], qry.shape[0]
    if n_heads < 1 or d_head < 1:
        raise UsageError(f"n_heads and d_head must be at least 1; got {n_heads} and {d_head}.")
    check_queries(qry)
    rows = _ContextRows(ctx)
    known = int(np.linalg.matrix_rank(qry))
    r = min(n, d_head, known)
    capacity = n_heads * (r - 1) + 1
    if n_examples > capacity:
        more = f"{math.ceil((n_examples - 1) / (r - 1))} heads" if r > 1 else "a larger r"
        raise CapacityError(
            f"Theorem 1 holds {capacity} examples with {n_heads} heads (r = min(n, d_head, Kruskal rank) = "
            f"min({n}, {d_head}, {known}) = {r}); got {n_examples}. Use {more}, or the random-feature construction."
        )

    # Step 1: split the examples other than a base over the heads, r-1 to each, and draw for each head a direction v
    # that its group's queries do not see.
    best = math.inf
    for _ in range(_PARTITIONS if shared else 1):
        drawn, v_drawn, u_drawn = partition(ctx, qry, n_heads, n_examples, _TRIES, rng)
        v_drawn, u_drawn = widen_margins(ctx, qry, drawn, v_drawn, u_drawn)
        worst = 1.0
        if shared:
            drawn, v_drawn, worst = order_groups(qry, drawn, v_drawn, n, rng)
        if worst < best or best == math.inf:
            best, groups, v, u = worst, drawn, v_drawn, u_drawn
        if best < 100 * n_heads:
            break

    # Steps 2 and 3: score maps.
    W_Q, W_K, gains = _score_maps(ctx, qry, rows, groups, v, u, d_head, _BETA, math.log(n / _DELTA))

    # Step 4: the linear solve, on the features of each precision.
    base = 0
    rank: int | None = None
    cond: float | None = None
    block_cond: float | None = None
    if shared:
        exact = _ClosedForm(ctx, qry, rows, groups, base, v, W_Q, W_K, "float64")
        rounded = _ClosedForm(ctx, qry, rows, groups, base, v, W_Q, W_K, "float32")
        share, block_cond = exact.saturated_share, exact.block_cond
        weights = LayerWeights(W_Q, W_K, *readout_weights(exact.solve(y)))
        weights32 = LayerWeights(W_Q, W_K, *readout_weights(rounded.solve(y))).astype("float32")
        if n_examples <= _MEASURE_Z_UP_TO:  # the closed form does not need Z, but the proof speaks of its rank
            Z = features(ctx, qry, W_Q, W_K).reshape(n_examples, -1)
            factor = MinNorm(np.asarray(Z, dtype=np.float64))
            rank, cond = factor.rank, factor.cond
    else:
        saturated = _Saturation(groups, n_examples)
        Z = features(ctx, qry, W_Q, W_K, watch=saturated.add)
        Z32 = features(ctx, qry, W_Q, W_K, "float32")
        share = saturated.share
        factor = MinNorm(np.asarray(Z.reshape(n_examples, -1), dtype=np.float64))
        rank, cond = factor.rank, factor.cond
        flat = factor.solve(y)
        weights = LayerWeights(W_Q, W_K, *readout_weights(flat.reshape(n_heads, -1, y.shape[1])))
        # Step 4 in float32: correct that readout on the features as float32 computes them. They differ little from
        # those that were factorised, so the same factors serve, and the residual shrinks from step to step.
        flat32, Z32_rows = flat, Z32.reshape(n_examples, -1).astype(np.float64)
        for _ in range(3):
            flat32 = flat32 + factor.solve(y - Z32_rows @ flat32, refine=0)
        weights32 = LayerWeights(W_Q, W_K, *readout_weights(flat32.reshape(n_heads, -1, y.shape[1]))).astype("float32")

    report = SaturationReport(
        r=r,
        groups=tuple(groups),
        base=base,
        saturated_share=share,
        c_median=float(np.median(gains)),
        c_max=float(np.max(gains)),
        readout="closed form" if shared else "least squares",
        rank=rank,
        cond=cond,
        block_cond=block_cond,
    )
    return SaturationResult(weights, weights32, report)


def check_queries(queries: Array) -> None:
    """Assumption 1 needs at least that no query is zero and no two are parallel (Kruskal rank >= 2)."""
    norms = np.linalg.norm(queries, axis=1)
    zero = np.flatnonzero(norms <= np.finfo(np.float64).tiny)
    instead = "mahdavi_random_features accepts such queries."
    if zero.size:
        found = f"query {zero[0] + 1} is zero ({zero.size} in all)"
        raise AssumptionError(f"Assumption 1 needs nonzero queries; {found}. {instead}")
    unit = queries / norms[:, None]
    first: tuple[int, int] | None = None
    count = 0
    for start in range(0, len(unit), 1024):
        cosine = np.abs(unit[start : start + 1024] @ unit.T)
        pairs = np.argwhere(np.triu(cosine > 1 - 1e-13, k=1 + start))
        count += len(pairs)
        if first is None and len(pairs):
            first = (int(pairs[0, 0]) + start, int(pairs[0, 1]))
    if first is not None:
        raise AssumptionError(
            f"Assumption 1 needs queries of which no two are parallel; queries {first[0] + 1} and {first[1] + 1} are "
            f"({count} pairs in all). {instead}"
        )


class _ContextRows:
    """Solves E_t b = f for one or many contexts of full row rank (Assumption 2), by QR of E_t^T."""

    def __init__(self, contexts: Array) -> None:
        stack = contexts if contexts.ndim == 3 else contexts[None]
        n, d = stack.shape[1:]
        if n > d:
            raise AssumptionError(
                f"Assumption 2 needs contexts of rank n; {n} rows of width {d} cannot have it. Use at most {d} rows, "
                "or build with mahdavi_random_features."
            )
        q, upper = torch.linalg.qr(torch.from_numpy(stack).transpose(1, 2))
        diagonal = upper.diagonal(dim1=1, dim2=2).abs()
        bad = torch.nonzero(diagonal.amin(dim=1) <= _RANK_TOLERANCE * diagonal.amax(dim=1)).flatten()
        if len(bad):
            raise AssumptionError(
                f"Assumption 2 needs every context to have rank n = {n}; context {int(bad[0]) + 1} has not "
                f"({len(bad)} in all): dependent rows. mahdavi_random_features accepts such contexts."
            )
        self._q, self._upper = q, upper

    def solve(self, which: IntArray, right: Array) -> Array:
        """For each context in `which` the smallest b with E b = right; (m, n, j) -> (m, d, j)."""
        rhs = torch.from_numpy(np.ascontiguousarray(right))
        if len(self._q) == 1:
            which = np.zeros_like(which)
        index = torch.from_numpy(which)
        inner = torch.linalg.solve_triangular(self._upper[index].transpose(1, 2), rhs, upper=False)
        return np.asarray((self._q[index] @ inner).numpy(), dtype=np.float64)


def _score_maps(
    contexts: Array,
    queries: Array,
    rows: _ContextRows,
    groups: list[IntArray],
    v: Array,
    u: Array,
    d_head: int,
    beta: float,
    depth: float,
) -> tuple[Array, Array, Array]:
    """W_Q, W_K (H, d_head, d) and the gains c (H,)."""
    shared = contexts.ndim == 2
    n, d = contexts.shape[-2:]
    n_heads = len(groups)
    if shared and n > 1:
        ends = np.zeros((1, n, 1))
        ends[0, n - 1], ends[0, n - 2] = 1.0, -1.0
        u = np.broadcast_to(rows.solve(np.zeros(1, dtype=np.int64), ends)[0, :, 0], u.shape)

    # Step 2: let each example of a group attend its own token: E_t M0 e_t = beta * onehot(i).
    served = np.concatenate(groups)
    place = np.concatenate([np.arange(len(group)) for group in groups])
    if shared:
        pick = beta * rows.solve(np.zeros(1, dtype=np.int64), np.eye(n)[None])[0].T[place]
    else:
        onehot = np.zeros((len(served), n, 1))
        onehot[np.arange(len(served)), place, 0] = beta
        pick = rows.solve(served, onehot)[:, :, 0]
    picks = np.split(pick, np.cumsum([len(group) for group in groups])[:-1])
    duals = [_dual(queries, group) for group in groups]

    # Step 3: saturate the softmax on the examples of the other heads with a term that the group does not see.
    gains = np.zeros(n_heads)
    if n > 1:
        block = max(1, 4_000_000 // (n * len(queries)))
        for start in range(0, n_heads, block):
            part = slice(start, min(start + block, n_heads))
            gains[part] = _gains(contexts, queries, groups[part], duals[part], picks[part], v[part], u[part], depth)
    W_Q, W_K = np.zeros((n_heads, d_head, d)), np.zeros((n_heads, d_head, d))
    for head in range(n_heads):
        left, right = duals[head], picks[head]
        if gains[head] > 0:
            left = np.concatenate([left, math.sqrt(gains[head]) * v[head][None]])
            right = np.concatenate([right, math.sqrt(gains[head]) * u[head][None]])
        balance = np.sqrt(np.linalg.norm(right, axis=1) / np.linalg.norm(left, axis=1))[:, None]
        W_Q[head, : len(left)], W_K[head, : len(left)] = left * balance, right / balance
    return W_Q, W_K, gains


def _dual(queries: Array, group: IntArray) -> Array:
    """Rows g_i with g_i . e_t = 1 for the i-th query of the group and 0 for its others."""
    if not len(group):
        return np.zeros((0, queries.shape[1]))
    dual = np.asarray(np.linalg.pinv(queries[group].T, rcond=_RANK_TOLERANCE), dtype=np.float64)
    if np.max(np.abs(dual @ queries[group].T - np.eye(len(group)))) > 1e-3:
        raise AssumptionError(
            f"Assumption 1 needs every {len(group)} queries to be independent; those of {_some(group)} are not. Use "
            "the random-feature construction."
        )
    return dual


def _some(group: IntArray) -> str:
    return f"examples {', '.join(str(i + 1) for i in group[:6])}{', ...' if len(group) > 6 else ''}"


def _gains(
    contexts: Array,
    queries: Array,
    groups: list[IntArray],
    duals: list[Array],
    picks: list[Array],
    v: Array,
    u: Array,
    depth: float,
) -> Array:
    """The smallest c of each head for which every outsider's top token leads every other token by `depth`."""
    n, d = contexts.shape[-2:]
    seen = queries @ v.T  # (T, H)
    if contexts.ndim == 2:
        facing = (contexts @ u.T)[None] * np.sign(seen)[:, None, :]  # (T, n, H)
        pairs = zip(duals, picks, strict=True)
        leak = np.stack([(queries @ dual.T) @ (pick @ contexts.T) for dual, pick in pairs], axis=2)
    else:
        facing = (contexts.reshape(-1, d) @ u.T).reshape(len(queries), n, -1) * np.sign(seen)[:, None, :]
        moved = np.stack([(queries @ dual.T) @ pick for dual, pick in zip(duals, picks, strict=True)], axis=2)
        leak = contexts @ moved
    top = np.argmax(facing, axis=1)[:, None, :]
    lead = (np.take_along_axis(facing, top, axis=1) - facing) * np.abs(seen)[:, None, :]
    need = depth + leak - np.take_along_axis(leak, top, axis=1)
    np.put_along_axis(lead, top, np.inf, axis=1)
    for head, group in enumerate(groups):
        lead[group, :, head] = np.inf
    reach = np.linalg.norm(queries, axis=1)[:, None] * np.abs(facing).max(axis=1)
    stuck = np.argwhere(lead.min(axis=1) <= 1e-12 * reach)
    if len(stuck):
        example, head = (int(i) for i in stuck[0])
        raise AssumptionError(
            f"Assumption 1 needs every {len(groups[head]) + 1} queries to be independent; that of {example} lies "
            f"in the span of those of {_some(groups[head])}. Use the random-feature construction."
        )
    return np.asarray(np.maximum((need / lead).max(axis=(0, 1)), 0.0), dtype=np.float64)


class _ClosedForm:
    """The readout of a shared context in token space: head h reads p_h from the token it attends, w_h = pinv(E) p_h.

    Outsiders of head h sit on token n-1 (read as 0) or n-2 (read as q_h). If the group leaves token n-2 alone, q_h = 0
    and each group is solved by itself. Otherwise q_h is also the reading of the group's last member, and the q of those
    heads and the base solve one small system first.
    """

    def __init__(
        self,
        contexts: Array,
        queries: Array,
        rows: _ContextRows,
        groups: list[IntArray],
        base: int,
        v: Array,
        W_Q: Array,
        W_K: Array,
        precision: Precision,
    ) -> None:
        self._data = (contexts, queries)
        self._maps = (W_Q, W_K)
        self._groups, self._base, self._precision = groups, base, precision
        n = contexts.shape[0]
        self._n = n
        head_of = np.zeros(len(queries), dtype=np.int64)
        for head, group in enumerate(groups):
            head_of[group] = head
        served = np.zeros((len(queries), n))
        saturated = _Saturation(groups, len(queries))
        for part, weights in attention(contexts, queries, W_Q, W_K, precision):
            served[part] = weights[np.arange(len(weights)), head_of[part]]
            saturated.add(part, weights)
        self.saturated_share = saturated.share
        self._inverse = [np.linalg.inv(served[group][:, : len(group)]) for group in groups]
        worst = max((float(np.linalg.cond(served[g][:, : len(g)])) for g in groups if len(g)), default=1.0)
        self._full = [h for h, group in enumerate(groups) if len(group) == n - 1 and n > 1]
        below = (queries @ v[self._full].T < 0).astype(np.float64)
        for i, h in enumerate(self._full):
            below[groups[h], i] = 0.0  # a group reads its own head through its attention, not as an outsider
        self._below = below
        system = np.zeros((len(self._full) + 1, len(self._full) + 1))
        system[0, 0], system[0, 1:] = 1.0, below[base]
        for i, h in enumerate(self._full):
            last = self._inverse[h][-1]
            system[i + 1, 0] = last.sum()
            system[i + 1, 1:] = last @ below[groups[h]]
            system[i + 1, i + 1] += 1.0
        self._system = system
        self.block_cond = max(worst, float(np.linalg.cond(system)) if self._full else 1.0)
        self._unread = rows.solve(np.zeros(1, dtype=np.int64), np.eye(n)[None])[0]  # pinv(E): (d, n)

    def _step(self, y: Array) -> Array:
        rhs = np.stack([y[self._base]] + [self._inverse[h][-1] @ y[self._groups[h]] for h in self._full])
        solved = np.linalg.solve(self._system, rhs)
        constant, q = solved[0], solved[1:]
        p = np.zeros((len(self._groups), self._n, y.shape[1]))
        for head, group in enumerate(self._groups):
            if len(group):
                p[head, : len(group)] = self._inverse[head] @ (y[group] - constant - self._below[group] @ q)
        p += constant / len(p)  # softmax weights sum to 1: the constant is spread over the heads
        out: Array = np.einsum("dn,hnk->hdk", self._unread, p)
        return out

    def solve(self, y: Array) -> Array:
        """The readout (H, d, k), with one step of refinement against the real forward pass."""
        contexts, queries = self._data
        readout = self._step(y)
        weights = LayerWeights(*self._maps, *readout_weights(readout))
        residual = y - predict(weights, contexts, queries, self._precision).astype(np.float64)
        return readout + self._step(residual)


class _Saturation:
    """Counts, per head, the examples outside its group whose largest weight exceeds 1 - 1e-6."""

    def __init__(self, groups: list[IntArray], n_examples: int) -> None:
        self._inside = np.zeros((n_examples, len(groups)), dtype=bool)
        for head, group in enumerate(groups):
            self._inside[group, head] = True
        self._count = np.zeros(len(groups))

    def add(self, part: slice, weights: RealArray) -> None:
        self._count += ((weights.max(axis=2) > 1 - _SATURATED) & ~self._inside[part]).sum(axis=0)

    @property
    def share(self) -> Array:
        return np.asarray(self._count / np.maximum((~self._inside).sum(axis=0), 1), dtype=np.float64)
