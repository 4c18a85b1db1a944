"""Step 1 of the saturation construction: which head serves which examples, and the direction that saturates the others.

For each head a unit vector v, orthogonal to the queries of its group, and u, with the term c u v^T of its score map.
All other examples must be told apart from a tie by |v.e_s| times the lead that u gives one token: the margin.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rote.data._arrays import FloatArray as Array
from rote.data._arrays import IntArray
from rote.solvers.vector_layer import RealArray

__all__ = ["order_groups", "partition", "widen_margins"]


def _sizes(n_examples: int, n_heads: int) -> list[int]:
    """How many examples each head serves: as even as possible, which keeps the groups of a partial load small."""
    base, extra = divmod(n_examples - 1, n_heads)
    return [base + (h < extra) for h in range(n_heads)]


def partition(
    contexts: Array, queries: Array, n_heads: int, n_examples: int, tries: int, rng: np.random.Generator
) -> tuple[list[IntArray], Array, Array]:
    """Groups, and for each head the unit vectors v (H, d) and u (H, d) of its saturating term."""
    n, d = contexts.shape[-2:]
    free = np.arange(1, n_examples)
    groups: list[IntArray] = []
    v_all = np.zeros((n_heads, d))
    for head, size in enumerate(_sizes(n_examples, n_heads)):
        v = rng.standard_normal((tries, d))
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        seen = np.abs(v @ queries[free].T)
        picks = np.argpartition(seen, size - 1, axis=1)[:, :size] if size else np.empty((tries, 0), dtype=np.int64)
        members = free[picks]  # the free examples whose queries v sees least: they move v least when it is projected
        if size:
            basis = np.linalg.qr(queries[members].transpose(0, 2, 1))[0]
            for _ in range(2):  # twice is enough (Kahan): v.e_t = 0 on the group to rounding
                v -= (basis @ (basis.transpose(0, 2, 1) @ v[:, :, None]))[:, :, 0]
        length = np.linalg.norm(v, axis=1, keepdims=True)
        v = np.where(length > 1e-8, v / np.maximum(length, 1e-300), 0.0)
        margin = np.abs(v @ queries.T)
        np.put_along_axis(margin, members, np.inf, axis=1)
        best = int(np.argmax(margin.min(axis=1)))
        v_all[head] = v[best]
        groups.append(np.sort(members[best]))
        free = np.delete(free, picks[best])
    u_all = np.zeros((n_heads, d))
    if contexts.ndim == 3 and n > 1:
        # Of a few directions u, each head takes the one that tells the tokens of its outsiders apart best.
        u = rng.standard_normal((2 * tries, d))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        ordered = np.sort((contexts.reshape(-1, d) @ u.T).reshape(n_examples, n, -1), axis=1)
        up, down = (ordered[:, -1] - ordered[:, -2]).T, (ordered[:, 1] - ordered[:, 0]).T
        for head, group in enumerate(groups):
            dots = queries @ v_all[head]
            margin = np.abs(dots) * np.where(dots > 0, up, down)
            margin[:, group] = np.inf
            u_all[head] = u[int(np.argmax(margin.min(axis=1)))]
    return groups, v_all, u_all


class _Margins:
    """|v.e_s| * gap_s(u) for all heads and examples (T, H), in float32: how far each outsider is from a tie.

    gap_s is the lead of the token that u ranks first (or last, where v.e_s < 0); a shared context has gap 1.
    """

    def __init__(self, contexts: Array, queries: Array, groups: list[IntArray]) -> None:
        self.queries = (queries / np.median(np.linalg.norm(queries, axis=1))).astype(np.float32)
        own = contexts.ndim == 3 and contexts.shape[1] > 1
        self.contexts = contexts.astype(np.float32) if own else None
        self.inside = np.zeros((len(queries), len(groups)), dtype=bool)
        for head, group in enumerate(groups):
            self.inside[group, head] = True
        self.dots = self.gap = self.margin = np.zeros(0, dtype=np.float32)
        self._first = self._second = np.zeros(0, dtype=bool)

    def at(self, v: npt.NDArray[np.float32], u: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        self.dots = self.queries @ v.T
        self.gap = np.ones_like(self.dots)
        if self.contexts is not None:
            n_examples, n, d = self.contexts.shape
            facing = (self.contexts.reshape(-1, d) @ u.T).reshape(n_examples, n, -1)
            facing *= np.sign(self.dots)[:, None, :]
            first = facing.max(axis=1, keepdims=True)
            self._first = facing == first
            facing[self._first] = -np.inf
            second = facing.max(axis=1, keepdims=True)
            self._second = facing == second
            gap = (first - second)[:, 0]
            self.gap = np.where(np.isfinite(gap), gap, np.float32(0))  # v.e = 0 ties every token
        self.margin = np.abs(self.dots) * self.gap
        self.margin[self.inside] = np.inf
        smallest: npt.NDArray[np.float32] = self.margin.min(axis=0)
        return smallest

    def slopes(self, sharpness: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None]:
        """Gradients of a soft minimum of the margins last evaluated, in v and in u, each (H, d)."""
        scale = np.partition(self.margin, sharpness, axis=0)[sharpness]
        scale = np.maximum(np.where(np.isfinite(scale), scale, 1.0), 1e-12) / 3
        pull = np.exp((self.margin.min(axis=0) - self.margin) / scale)
        in_v = (pull * self.gap * np.sign(self.dots)).T @ self.queries
        if self.contexts is None:
            return in_v, None
        weight = self._first.astype(np.float32) - self._second
        weight *= (pull * self.dots)[:, None, :]
        flat = self.contexts.reshape(-1, self.contexts.shape[2])
        return in_v, weight.reshape(len(flat), -1).T @ flat


def widen_margins(contexts: Array, queries: Array, groups: list[IntArray], v: Array, u: Array) -> tuple[Array, Array]:
    """Raise the smallest margin of each head by ascent on a soft minimum, all heads at once.

    The gain c is inversely proportional to that minimum, and c times the rounding unit is what a float32 forward pass
    adds to the scores of the group. v moves within the complement of its group's queries.
    """
    n_heads, d = v.shape
    basis = np.zeros((n_heads, d, max(len(g) for g in groups)))
    for head, group in enumerate(groups):
        basis[head, :, : len(group)] = np.linalg.qr(queries[group].T)[0]
    margins = _Margins(contexts, queries, groups)

    def unit(x: RealArray) -> Array:
        return np.asarray(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-30), dtype=np.float64)

    def off_group(x: RealArray) -> Array:
        inner = np.einsum("hdj,hd->hj", basis, x, optimize=True)
        return unit(x - np.einsum("hdj,hj->hd", basis, inner, optimize=True))

    v_best, u_best = off_group(v), unit(u)
    worst = margins.at(v_best.astype(np.float32), u_best.astype(np.float32))
    if not np.isfinite(worst).all() or not (np.linalg.norm(v_best, axis=1) > 0.5).all():
        return off_group(off_group(v)), u
    step = np.full((n_heads, 1), 0.05)
    sharpness = min(max(1, d // 4), len(queries) - 1)
    slope_v, slope_u = margins.slopes(sharpness)
    for _ in range(40):
        v_new = off_group(v_best + step * off_group(slope_v))
        u_new = u_best if slope_u is None else unit(u_best + step * unit(slope_u))
        now = margins.at(v_new.astype(np.float32), u_new.astype(np.float32))
        better = (now > worst)[:, None]
        if not better.any():
            step *= 0.5
            continue
        new_slopes = margins.slopes(sharpness)
        v_best, u_best = np.where(better, v_new, v_best), np.where(better, u_new, u_best)
        slope_v = np.where(better, new_slopes[0], slope_v)
        if slope_u is not None and new_slopes[1] is not None:
            slope_u = np.where(better, new_slopes[1], slope_u)
        worst = np.maximum(now, worst)
        step = np.clip(np.where(better, step * 1.3, step * 0.5), 1e-5, 0.3)
    return off_group(off_group(v_best)), u_best


def order_groups(
    queries: Array, groups: list[IntArray], v: Array, n: int, rng: np.random.Generator
) -> tuple[list[IntArray], Array, float]:
    """For a shared context, choose which member of a full group (n-1 members) gets token n-2, and the sign of v.

    Outsiders sit on token n-1 (v.e > 0) or n-2 (v.e < 0). A group of n-1 needs token n-2 for its last member, and the
    readout reduces to a 0/1 system: row h says which full heads put the last member of group h on token n-2. It can
    be singular. Exchanging members and flipping signs while that raises the determinant makes it well conditioned;
    the third answer is the condition reached.
    """
    full = [h for h, group in enumerate(groups) if len(group) == n - 1 and n > 1]
    if not full:
        return groups, v, 1.0
    m = len(full)
    below = (v[full] @ queries.T < 0).T.astype(np.float64)  # (T, m)
    members = np.stack([groups[h] for h in full])
    best: tuple[float, Array, IntArray] | None = None
    for _ in range(8):
        flip = rng.integers(0, 2, m).astype(np.float64)
        last = rng.integers(0, n - 1, m)
        for _ in range(30):
            side = np.abs(below - flip)
            candidates = side[members]  # (m, n-1, m)
            candidates[np.arange(m), :, np.arange(m)] = 1.0  # the member itself sits on token n-2
            system = np.ones((m + 1, m + 1))
            system[0, 1:] = side[0]
            system[1:, 1:] = candidates[np.arange(m), last]
            changed = False
            if np.linalg.cond(system) < 1e12:
                inverse = np.linalg.inv(system)
            else:  # a regular neighbour shows which exchanges lead away from the singular one
                inverse = np.linalg.inv(system + 0.1 * rng.standard_normal(system.shape))
            for row in range(m):
                extended = np.concatenate([np.ones((n - 1, 1)), candidates[row]], axis=1)
                growth = np.abs(extended @ inverse[:, row + 1])
                pick = int(np.argmax(growth))
                if growth[pick] > 1.01 * growth[last[row]] and pick != last[row]:
                    change = extended[pick] - system[row + 1]
                    column = inverse[:, row + 1].copy()
                    inverse -= np.outer(column, change @ inverse) / (1 + change @ column)
                    system[row + 1] = extended[pick]
                    last[row] = pick
                    changed = True
            condition = float(np.linalg.cond(system))
            if best is None or condition < best[0]:
                best = (condition, flip.copy(), last.copy())
            for head in range(m):
                mirrored = 1 - system[:, head + 1]
                mirrored[head + 1] = 1.0
                if np.abs(inverse[head + 1] @ mirrored) > 1.01:
                    change = mirrored - system[:, head + 1]
                    row_of = inverse[head + 1].copy()
                    inverse -= np.outer(inverse @ change, row_of) / (1 + row_of @ change)
                    system[:, head + 1] = mirrored
                    flip[head] = 1 - flip[head]
                    changed = True
            condition = float(np.linalg.cond(system))
            if condition < best[0]:
                best = (condition, flip.copy(), last.copy())
            if not changed:
                break
        if best is not None and best[0] < 10 * m:
            break
    if best is None:
        return groups, v, math.inf
    condition, flip, last = best
    groups, v = list(groups), v.copy()
    for i, h in enumerate(full):
        rest = np.delete(groups[h], last[i])
        groups[h] = np.append(rest, groups[h][last[i]])
        if flip[i]:
            v[h] = -v[h]
    return groups, v, condition
