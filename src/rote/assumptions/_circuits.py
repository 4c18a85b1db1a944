"""Witnesses: explicit small dependent sets. What is found is proof; what is not found proves nothing.

A circuit is a dependent set all of whose proper subsets are independent. Zero vectors and parallel vectors are found
for certain. Larger circuits are searched for by orthogonal least squares from every vector at once: which few others
does it depend on? A beam of first choices follows, because greedy choices go wrong at the first step if at all.
"""

from __future__ import annotations

import numpy as np
import torch

from rote.assumptions._independence import CLEAR, Rows, noise
from rote.data._arrays import FloatArray as Array
from rote.data._arrays import IntArray

__all__ = ["any_circuit", "parallel_classes", "shrink", "sparse_circuit"]


_VANISHED = 2e-3  # of a unit vector, in float32; verified in float64 afterwards
_CHUNK = 4_000_000
_LARGEST_TRIED = 40
_BUDGET = 4e10  # floating point operations of one search


def parallel_classes(rows: Rows) -> tuple[IntArray, bool]:
    """A class for each vector: parallel ones (up to sign) share it. Also whether some pair was too close to call.

    Lines are brought to a common sign and sorted by a projection; only neighbours within rounding can be parallel.
    """
    count = len(rows)
    label = np.arange(count)
    probe = np.cos(np.arange(1, rows.d + 1) ** 1.5)  # fixed and generic; nothing random is needed
    probe /= np.linalg.norm(probe)
    value = np.abs(rows.unit @ probe)
    order = np.argsort(value, kind="stable")
    reach = max(1e-12, 64 * rows.roundoff)
    ends = np.searchsorted(value[order], value[order] + reach, side="right")
    doubtful = False
    for place in np.flatnonzero(ends > np.arange(count) + 1).tolist():
        i = order[place]
        if label[i] != i:  # its class has been compared from its first member
            continue
        near = order[place + 1 : ends[place]]
        near = near[label[near] == near]
        dots = np.abs(rows.unit[near] @ rows.unit[i])
        near = near[dots > 1 - max(1e-20, reach**2) - 1e-12]
        if not near.size:
            continue
        verdict = [rows.dependent(np.array([i, j])) for j in near.tolist()]
        same = np.array([v is True for v in verdict])
        doubtful = doubtful or any(v is None for v in verdict)
        label[near[same]] = i
    zero = np.flatnonzero(rows.zero)
    if zero.size:
        label[zero] = zero[0]
    # A class is named by its first member.
    names = np.full(count, count)
    np.minimum.at(names, label, np.arange(count))
    return names[label], doubtful


def shrink(rows: Rows, which: IntArray) -> IntArray | None:
    """A circuit inside a dependent set; None if the set is not clearly dependent."""
    members: IntArray = np.unique(which)
    if rows.dependent(members) is not True:
        return None
    if len(members) == 1:
        return members
    left, singular, _ = np.linalg.svd(rows.unit[members])
    weights = np.abs(left[:, -1])
    level = float(noise(len(members), rows.d, rows.roundoff, float(singular[0])))
    second = float(singular[-2]) if len(members) <= rows.d else float(singular[-1])
    if second > CLEAR * level and len(members) - 1 <= rows.d:
        # One relation only: its support is the circuit.
        support: IntArray = members[weights > CLEAR * level / second]
        if len(support) < len(members) and rows.dependent(support) is True:
            return support
        return members
    for i in members[np.argsort(weights)] if len(members) <= _LARGEST_TRIED else ():
        smaller = members[members != i]
        if smaller.size and rows.dependent(smaller) is True:
            members = smaller
    return members


def any_circuit(rows: Rows, rank: int) -> IntArray | None:
    """One circuit among more than `rank` vectors of that rank: a vector and the part of a basis that spans it."""
    from scipy.linalg import qr

    if len(rows) <= rank:
        return None
    order = qr(rows.unit.T, mode="r", pivoting=True)[1]
    basis, extra = np.asarray(order[:rank], dtype=np.int64), np.asarray(order[rank : rank + 200], dtype=np.int64)
    table = np.linalg.lstsq(rows.unit[basis].T, rows.unit[extra].T, rcond=None)[0]
    used = (np.abs(table) > 1e-6).sum(axis=0)
    for k in np.argsort(used, kind="stable")[:4].tolist():
        chosen = np.append(basis[np.abs(table[:, k]) > 1e-6], extra[k])
        for members in (chosen, np.append(basis, extra[k])):
            found = shrink(rows, members)
            if found is not None:
                return found
    return None


def sparse_circuit(
    rows: Rows, isotropic: Array, most: int, rng: np.random.Generator, *, effort: float = 1.0
) -> IntArray | None:
    """The smallest circuit of at most `most` vectors that the search meets; `isotropic` are the vectors searched in."""
    count, width = isotropic.shape
    most = min(most, width)
    if most < 3 or count < 3:
        return None
    table = torch.from_numpy(np.ascontiguousarray(isotropic)).float()
    best: IntArray | None = None
    cost = 6.0 * count * width * most
    for beam in (1, 4, 32):
        starts = np.arange(count)
        affordable = max(1, int(effort * _BUDGET / (cost * beam)))
        if affordable < count:
            starts = np.sort(rng.choice(count, affordable, replace=False))
        limit = most if best is None else len(best) - 1
        found = _beam(rows, table, starts, beam, limit)
        if found is not None:
            best = found
        if best is not None and len(best) <= 4:
            break
    return best


def _beam(rows: Rows, table: torch.Tensor, starts: IntArray, beam: int, most: int) -> IntArray | None:
    """Orthogonal least squares from every start with each of its `beam` best first choices."""
    count, width = table.shape
    best: IntArray | None = None
    size = max(1, _CHUNK // (count * beam))
    for begin in range(0, len(starts), size):
        if most < 3:
            break
        seeds = torch.from_numpy(starts[begin : begin + size])
        first = (table[seeds] @ table.T).abs_()
        first[torch.arange(len(seeds)), seeds] = -1
        picks = first.topk(min(beam, count - 1), dim=1).indices
        chosen = torch.stack([seeds.repeat_interleave(picks.shape[1]), picks.reshape(-1)], dim=1)
        residual = table[chosen[:, 0]].clone()
        left = torch.ones(len(chosen), count)  # squared length of every vector outside the span so far
        left.scatter_(1, chosen[:, :1], 0.0)
        newest = chosen[:, 1]
        basis = torch.zeros(len(chosen), 0, width)
        for step in range(1, most):
            # Step: take `newest` into the span, and the residual of the start out of it.
            direction = table[newest]
            for _ in range(2):
                inner = torch.bmm(basis, direction[:, :, None])
                direction = direction - torch.bmm(basis.transpose(1, 2), inner)[:, :, 0]
            direction = direction / direction.norm(dim=1, keepdim=True).clamp_min(1e-12)
            residual = residual - (residual * direction).sum(1, keepdim=True) * direction
            basis = torch.cat([basis, direction[:, None]], dim=1)
            left -= (direction @ table.T) ** 2
            left.scatter_(1, chosen, 0.0)
            length = residual.norm(dim=1)
            if step >= 2:
                for row in torch.nonzero(length < _VANISHED)[:, 0].tolist()[:200]:
                    found = shrink(rows, chosen[row].numpy())
                    if found is not None and (best is None or len(found) < len(best)):
                        best = found
                        most = min(most, len(best) - 1)
            if step + 1 >= most or (best is not None and step + 2 >= len(best)):
                break
            gain = (residual @ table.T) ** 2 / left.clamp_min(1e-6)
            gain[left < 1e-5] = -1
            newest = gain.argmax(dim=1)
            chosen = torch.cat([chosen, newest[:, None]], dim=1)
    return best
