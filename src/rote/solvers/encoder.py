"""The best sequence encoder of width d: a lower bound for every transformer (Dana, Pydi, Chevaleyre 2025).

Statement: a model of width d predicts softmax(W E(t)) with W (N, d), so its divergence from a table of distributions pi
           with prior p is at least d_KL(pi, L) = inf over W and E of sum_t p_t KL(pi_t || softmax(W E_t)) (Proposition
           1). It is 0 for every pi as soon as d >= N - 1 (Proposition 2), and for one next token per context as soon as
           d >= 2 (Proposition 3).
Notation:  N = vocab, d = d_model, T = contexts, W = W_U, E_t = the residual stream of context t.
Source:    arXiv 2411.10115 v2.
Differs:   0 is also returned where the centred logarithms of pi have rank d or less, which contains d >= N - 1 and
           d >= T. Otherwise the number is what the optimiser reached: the problem is not convex in W and E together, so
           it is solved from several starts, and their spread is part of the answer.

The algorithm is variable projection. For a given W the contexts are separate convex problems in d numbers, solved for
all of them at once by damped Newton steps (their factors are kept while they still serve). What remains is a function
of W alone, whose gradient is sum_t p_t (softmax(W E_t) - pi_t) E_t^T at the solved E, and L-BFGS minimises it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor

from rote.data import DistributionTable
from rote.data._arrays import FloatArray as Array
from rote.errors import AssumptionError, UsageError
from rote.solvers.encoder_newton import Contexts, project
from rote.solvers.rows import distinct_rows

__all__ = ["EncoderBound", "best_given", "default_starts", "encoder_bound", "tighten"]

Report = Callable[[int, int], None]

_RANK = 1e-10  # singular values below this share of the largest count as zero
_HEATS = (0.3, 0.6, 0.8)
_HEATED_STEPS = 25
_SCOUT_STEPS = 100
_BIG = 50_000_000  # numbers in T x N x d beyond which single precision and fewer starts are used


@dataclass(frozen=True)
class EncoderBound:
    """The divergence of the best encoder found, the encoder, and how the starts differed."""

    kl: float
    d_model: int
    W: Array | None
    """(N, d), orthonormal columns but for zero ones; None where 0 is approached and not reached."""
    E: Array | None
    """(T, d)."""
    starts: tuple[float, ...] = ()
    """What each start reached; empty where 0 is exact."""
    reason: str = ""
    """Why the bound is exactly 0, if it is."""
    iterations: int = 0
    gradient: float = 0.0
    """The largest entry of the gradient in W at the end."""

    @property
    def exact(self) -> bool:
        return bool(self.reason)

    @property
    def spread(self) -> float:
        """Worst start minus best."""
        return max(self.starts) - min(self.starts) if self.starts else 0.0


def default_starts(table: DistributionTable, d_model: int) -> int:
    """Many starts for tiny tables, where they are cheap; eight to three for larger ones, two for very large ones."""
    size = table.n_contexts * table.vocab * d_model
    if d_model <= 3 and 2_000 < size <= 3_000_000:
        return 16  # the order of the tokens around a circle is a puzzle with many minima
    limits = ((2_000, 32), (30_000, 16), (100_000, 8), (3_000_000, 5), (_BIG, 3))
    return next((starts for limit, starts in limits if size <= limit), 2)


def encoder_bound(
    table: DistributionTable,
    d_model: int,
    *,
    rng: np.random.Generator,
    starts: int | None = None,
    iterations: int | None = None,
    first: npt.ArrayLike | None = None,
    report: Report | None = None,
) -> EncoderBound:
    """d_KL(pi, L(N, S, d)), the best of several starts; `first` is a W (N, d) to start from besides the usual ones.

    A table with zero probabilities is taken where Propositions 2 and 3 answer; otherwise it must be smoothed first.
    """
    if d_model < 1:
        raise UsageError(f"d_model must be at least 1, got {d_model}.")
    if starts is not None and starts < 1:
        raise UsageError(f"starts must be at least 1, got {starts}.")
    known = _exact(table, d_model)
    if known is not None:
        return known
    if not table.full_support:
        raise AssumptionError(
            f"the best encoder needs distributions of full support (Assumption 2), and {table.n_zeros:,} probabilities "
            "are 0; smooth the table first, by 0.01 say."
        )
    merged = _Merged(table)
    count = starts if starts is not None else default_starts(table, d_model)
    size = merged.pi.shape[0] * table.vocab * d_model
    big = size > _BIG
    steps = iterations if iterations is not None else (120 if size > 10 * _BIG else 200 if big else 800)
    found: list[_Found] = []
    for number in range(count + (first is not None)):
        if report is not None:
            report(number, count)
        if first is not None and number == count:
            W0 = np.array(first, dtype=np.float64)
        else:
            # In turn: informed (0, 1), random, random and untempered, shaken.
            shaken, tempered = number >= 4 and number % 4 == 0, number < 3 or number % 4 == 2
            W0 = _start(merged, d_model, number, rng, min(found).W if shaken else None)
            if not big and tempered:
                # Tempering: the flattened problems have fewer minima, and lead into good ones of the real problem.
                # Not always into the best one, so that other starts do without.
                for heat in _HEATS:
                    W0 = _descend(merged.heated(heat), W0, _HEATED_STEPS, single=False, coarse=True).W
        found.append(_descend(merged, W0, steps if big else min(steps, _SCOUT_STEPS), single=big, coarse=True))
    if not big:
        # Scouts are cheap; only the most promising are followed to the end.
        found.sort()
        found[:2] = [_descend(merged, one.W, steps, single=False, coarse=False) for one in found[:2]]
        found.sort()
        if iterations is None:
            found[0] = _settle(merged, found[0])
    best = min(found)
    values = tuple(one.value for one in found)
    return _finish(merged, best, values, d_model)


def tighten(
    table: DistributionTable, bound: EncoderBound, W_U: npt.ArrayLike, *, rng: np.random.Generator
) -> EncoderBound:
    """The bound after a rival did better than it: start from the rival's unembedding, and twice as many others."""
    if bound.exact:
        return bound
    again = encoder_bound(table, bound.d_model, rng=rng, starts=2 * max(1, len(bound.starts)), first=W_U)
    return again if again.kl < bound.kl else bound


def best_given(table: DistributionTable, W_U: npt.ArrayLike) -> tuple[float, Array]:
    """The least divergence that any encoder with this unembedding reaches, and its E; a convex problem."""
    merged = _Merged(table)
    W = torch.from_numpy(np.array(W_U, dtype=np.float64))
    solver = Contexts(merged.pi, merged.entropies)
    E, losses = solver.solve(W, torch.zeros((len(merged.pi), W.shape[1]), dtype=torch.float64), tolerance=1e-14)
    return float(merged.prior @ losses), np.asarray(E.numpy()[merged.place], dtype=np.float64)


class _Merged:
    """The table with equal distributions counted once: they have one and the same best E_t."""

    def __init__(self, table: DistributionTable) -> None:
        kept, self.place = distinct_rows(table.probabilities)
        self.pi = torch.from_numpy(table.probabilities[kept])
        self.prior = torch.from_numpy(np.bincount(self.place, weights=table.prior, minlength=len(kept)))
        self.entropies = torch.from_numpy(table.entropies[kept])

    def heated(self, power: float) -> _Merged:
        """The same contexts with flatter distributions, proportional to pi^power."""
        made = _Merged.__new__(_Merged)
        raised = self.pi**power
        made.pi = raised / raised.sum(dim=1, keepdim=True)
        made.place, made.prior = self.place, self.prior
        made.entropies = -(made.pi * made.pi.log()).sum(dim=1)
        return made


def _centred_logs(pi: Array) -> Array:
    with np.errstate(divide="ignore"):
        logs = np.log(pi)
    centred: Array = logs - logs.mean(axis=1, keepdims=True)
    return centred


def _exact(table: DistributionTable, d: int) -> EncoderBound | None:
    """Where the infimum is 0, with the encoder that reaches it if there is one."""
    if table.full_support:
        logs = _centred_logs(table.probabilities)
        small = logs.T @ logs if len(logs) > table.vocab else logs @ logs.T
        size = np.sqrt(np.maximum(np.linalg.eigvalsh(small)[::-1], 0.0))
        if d < min(table.vocab - 1, table.n_contexts) and size[d] > 1e-6 * size[0]:
            return None
        left, values, _ = np.linalg.svd(logs.T, full_matrices=False)
        rank = int(np.sum(values > _RANK * max(values[0], 1e-300)))
        rank = min(rank, table.vocab - 1)
        if rank > d:
            return None
        W = np.zeros((table.vocab, d))
        W[:, :rank] = left[:, :rank]
        if d >= table.vocab - 1:
            why = f"d_model >= N - 1 = {table.vocab - 1} (Proposition 2)"
        else:
            why = f"the logarithms of the probabilities have rank {rank}"
        return EncoderBound(0.0, d, W, logs @ W, reason=why)
    if d >= table.vocab - 1:
        why = f"d_model >= N - 1 = {table.vocab - 1} (Proposition 2); approached, not reached, as some are 0"
        return EncoderBound(0.0, d, None, None, reason=why)
    if table.is_association:
        targets = len(np.unique(table.probabilities.argmax(axis=1)))
        if d >= 2 or targets <= 2:
            why = "one next token per context (Proposition 3); approached, not reached"
            return EncoderBound(0.0, d, None, None, reason=why)
    return None


def _start(merged: _Merged, d: int, number: int, rng: np.random.Generator, best: Array | None) -> Array:
    """A first W: from the logarithms, from the probabilities, then random ones; or the best so far, shaken."""
    pi, prior = merged.pi.numpy(), merged.prior.numpy()
    vocab = pi.shape[1]
    if number in (0, 1):
        weight = np.sqrt(prior)[:, None]
        rows = _centred_logs(pi) * weight if number == 0 else (pi - prior @ pi) / np.sqrt(prior @ pi) * weight
        _, vectors = np.linalg.eigh(rows.T @ rows)
        return np.ascontiguousarray(vectors[:, ::-1][:, :d])
    noise = rng.standard_normal((vocab, d))
    if best is not None:
        noise = best + 0.5 * float(np.linalg.norm(best)) / math.sqrt(vocab * d) * noise
    return np.asarray(project(torch.from_numpy(noise)).numpy(), dtype=np.float64)


class _Found(NamedTuple):
    """What a descent reached; ordered by value."""

    value: float
    W: Array
    iterations: int
    gradient: float

    def __lt__(self, other: object) -> bool:
        return isinstance(other, _Found) and self.value < other.value


def _descend(merged: _Merged, W0: Array, steps: int, *, single: bool, coarse: bool) -> _Found:
    """L-BFGS on W, to four digits or so, or to the end."""
    kind = torch.float32 if single else torch.float64
    pi, prior, entropies = merged.pi.to(kind), merged.prior.to(kind), merged.entropies.to(kind)
    solver = Contexts(pi, entropies)
    shape = W0.shape
    E = torch.zeros((len(pi), shape[1]), dtype=kind)
    finest = 2e-5 if single else 1e-8 if coarse else 1e-10
    last = math.inf
    tolerance = 1e-4 if single else finest

    def function(flat: Array) -> tuple[float, Array]:
        nonlocal E, last, tolerance
        W = torch.from_numpy(flat.reshape(shape)).to(kind)
        E, losses = solver.solve(W, E, tolerance=tolerance)
        slope = solver.slope(prior, E)
        value = float(prior.double() @ losses.double())
        # The inner problems need to be solved only as well as the outer one progresses.
        tolerance = max(finest, min(tolerance, 0.1 * abs(last - value)))
        last = value
        return value, slope.double().numpy().reshape(-1)

    found = minimize(
        function,
        W0.reshape(-1),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": steps,
            "maxfun": 2 * steps,
            "maxcor": 8 if single else 20,
            "ftol": 1e-7 if coarse else 1e-12,
            "gtol": 1e-9,
        },
    )
    W = np.asarray(found.x.reshape(shape), dtype=np.float64)
    return _Found(float(found.fun), W, int(found.nit), float(np.abs(found.jac).max()))


def _settle(merged: _Merged, now: _Found) -> _Found:
    """Descend until a fresh start of L-BFGS at the end finds nothing any more: it may give up early in a valley."""
    for _ in range(3):
        further = _descend(merged, now.W, 200, single=False, coarse=False)
        if not further.value < now.value - 1e-10:
            return min(now, further)
        now = further._replace(iterations=now.iterations + further.iterations)
    return now


def _finish(merged: _Merged, best: _Found, values: tuple[float, ...], d: int) -> EncoderBound:
    """Fix the gauge (centred, orthonormal columns) and solve for E to the last digit."""
    gauge = project(torch.from_numpy(best.W))
    solver = Contexts(merged.pi, merged.entropies)
    start: Tensor = torch.zeros((len(merged.pi), gauge.shape[1]), dtype=torch.float64)
    E, losses = solver.solve(gauge, start, tolerance=1e-15)
    value = max(0.0, float(merged.prior @ losses))
    whole = np.asarray(E.numpy()[merged.place], dtype=np.float64)
    # The inner problems of a start are solved to its tolerance; the best is reported as solved to the end.
    values = tuple(sorted((value, *sorted(max(value, v) for v in values)[1:])))
    return EncoderBound(
        value, d, np.asarray(gauge.numpy(), dtype=np.float64), whole, values, "", best.iterations, best.gradient
    )
