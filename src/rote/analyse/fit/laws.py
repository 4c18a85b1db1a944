"""Forms of scaling laws, weighted least squares, and intervals by the bootstrap.

    linear      y = a + b x
    power       y = a x^b
    quadratic   y = a + b x + c x^2

Points are means over seeds. Their variances are each point's own, shrunk towards the common one, since a few seeds
say little about a variance. Intervals are studentised (bootstrap-t) from resampled residuals: for few points they are
wider, and nearer to the promised coverage, than plain percentiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rote.data._arrays import FloatArray
from rote.errors import UnknownName

__all__ = ["LAWS", "Curve", "Law", "fit_law", "get_law", "leave_one_out"]

_STEPS = 30
_STILL = 1e-14
"""Parameters that move by less than this share have arrived."""


@dataclass(frozen=True)
class Law:
    """A form with its derivatives; parameters run along the last axis, so that many fits go at once."""

    name: str
    formula: str
    names: tuple[str, ...]
    value: Callable[[FloatArray, FloatArray], FloatArray]
    slopes: Callable[[FloatArray, FloatArray], FloatArray]
    is_linear: bool

    @property
    def size(self) -> int:
        return len(self.names)


def _power(x: FloatArray, p: FloatArray) -> FloatArray:
    return np.asarray(p[..., :1] * np.exp(p[..., 1:2] * np.log(x)))


LAWS: dict[str, Law] = {
    law.name: law
    for law in (
        Law(
            "linear",
            "a + b x",
            ("a", "b"),
            lambda x, p: np.asarray(p[..., :1] + p[..., 1:2] * x),
            lambda x, p: np.broadcast_to(np.stack([np.ones_like(x), x], -1), (*p.shape[:-1], len(x), 2)),
            True,
        ),
        Law(
            "power",
            "a x^b",
            ("a", "b"),
            _power,
            lambda x, p: np.stack([np.exp(p[..., 1:2] * np.log(x)), _power(x, p) * np.log(x)], -1),
            False,
        ),
        Law(
            "quadratic",
            "a + b x + c x^2",
            ("a", "b", "c"),
            lambda x, p: np.asarray(p[..., :1] + p[..., 1:2] * x + p[..., 2:3] * x**2),
            lambda x, p: np.broadcast_to(np.stack([np.ones_like(x), x, x**2], -1), (*p.shape[:-1], len(x), 3)),
            True,
        ),
    )
}


def get_law(name: str) -> Law:
    if name not in LAWS:
        raise UnknownName("law", name, [*LAWS, "auto"])
    return LAWS[name]


@dataclass(frozen=True)
class Curve:
    """A fitted law: parameters, their intervals, and how well it does."""

    law: Law
    params: FloatArray
    errors: FloatArray
    """Standard errors."""
    intervals: tuple[tuple[float, float], ...]
    draws: FloatArray
    """Parameters of the bootstrap fits, for bands."""
    chi2: float
    aic: float
    """AICc: corrected for few points."""
    cv: float
    """Cross-validated error: the root of the weighted mean square, each point predicted by the others."""
    cv_spread: float
    """Standard error of the cross-validated mean square."""

    def at(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.law.value(x, self.params))

    def band(self, x: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        values = self.law.value(x, self.draws)
        low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high


def _start(law: Law, x: FloatArray, y: FloatArray) -> FloatArray:
    if law.is_linear:
        return np.zeros(law.size)
    good = y > 0
    if good.sum() < 2:
        return np.array([max(float(np.mean(y)), 1e-9), 0.0])
    b, log_a = np.polyfit(np.log(x[good]), np.log(y[good]), 1)
    return np.array([math.exp(log_a), b])


def _solve(
    law: Law, x: FloatArray, y: FloatArray, weights: FloatArray, start: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Damped Gauss-Newton for rows of y at once: (parameters, their covariance for unit weights)."""
    p = np.broadcast_to(start, (*y.shape[:-1], law.size)).copy()
    ridge = 1e-12
    eye = np.eye(law.size)

    def loss(q: FloatArray) -> FloatArray:
        return np.asarray((weights * (y - law.value(x, q)) ** 2).sum(-1))

    now = loss(p)
    for _ in range(1 if law.is_linear else _STEPS):
        slopes = law.slopes(x, p)
        left = np.einsum("...ni,n,...nj->...ij", slopes, weights, slopes)
        right = np.einsum("...ni,n,...n->...i", slopes, weights, y - law.value(x, p))
        scale = np.sqrt(np.einsum("...ii->...i", left)) + 1e-300
        inner = left / scale[..., :, None] / scale[..., None, :] + ridge * eye
        move = np.linalg.solve(inner, (right / scale)[..., None])[..., 0] / scale
        size = np.ones(now.shape)
        for _ in range(1 if law.is_linear else 12):
            tried = p + size[..., None] * move
            with np.errstate(over="ignore", invalid="ignore"):
                after = loss(tried)
            worse = ~(after <= now * (1 + 1e-12)) if not law.is_linear else np.zeros_like(now, dtype=bool)
            if not worse.any():
                break
            size = np.where(worse, size / 2, size)
        accept = after <= now if not law.is_linear else np.ones_like(now, dtype=bool)
        p, before = np.where(accept[..., None], tried, p), p
        now = np.where(accept, after, now)
        if (np.abs(p - before) <= _STILL * np.abs(p)).all():
            break
    slopes = law.slopes(x, p)
    left = np.einsum("...ni,n,...nj->...ij", slopes, weights, slopes)
    scale = np.sqrt(np.einsum("...ii->...i", left)) + 1e-300
    inner = np.linalg.inv(left / scale[..., :, None] / scale[..., None, :] + ridge * eye)
    return p, inner / scale[..., :, None] / scale[..., None, :]


def leave_one_out(law: Law, x: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Squared errors of every point as predicted by the others, in units of its variance."""
    predicted = []
    for i in range(len(x)):
        keep = np.arange(len(x)) != i
        p, _ = _solve(law, x[keep], y[keep], weights[keep], _start(law, x[keep], y[keep]))
        predicted.append(weights[i] * float(y[i] - law.value(x[i : i + 1], p)[0]) ** 2)
    return np.array(predicted)


def fit_law(
    law: Law,
    x: FloatArray,
    y: FloatArray,
    variance: FloatArray,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    draws: int = 1000,
) -> Curve:
    """Fit means `y` with variances `variance`; intervals by the bootstrap-t with `draws` resamples."""
    weights = 1 / variance
    p, cov = _solve(law, x, y, weights, _start(law, x, y))
    fitted = law.value(x, p)
    residual = (y - fitted) * np.sqrt(weights)
    chi2 = float((residual**2).sum())
    free = len(x) - law.size

    # Misfit beyond the variances is noise too: then errors grow with it. Variances are never taken to be too large.
    def dispersion(residuals: FloatArray) -> FloatArray:
        return np.asarray((residuals**2).sum(-1) / free)

    phi = dispersion(residual)
    se = np.sqrt(phi * np.diag(cov))
    slopes = law.slopes(x, p)
    lever = np.einsum("ni,ij,nj->n", slopes, cov, slopes) * weights
    pool = residual / np.sqrt(np.clip(1 - lever, 1e-3, None))
    pool = (pool - pool.mean()) * math.sqrt(len(pool) / max(1, len(pool) - 1))
    # Resampled residuals of a few points take few values; a normal part of the same size smooths them.
    mixed = (rng.choice(pool, size=(draws, len(x))) + rng.standard_normal((draws, len(x))) * pool.std()) / math.sqrt(2)
    resampled = fitted + mixed / np.sqrt(weights)
    q, covs = _solve(law, x, resampled, weights, p)
    spread = np.sqrt(
        dispersion((resampled - law.value(x, q)) * np.sqrt(weights))[:, None] * np.einsum("...ii->...i", covs)
    )
    t = (q - p) / np.maximum(spread, 1e-300)
    low, high = np.quantile(t, [(1 - level) / 2, (1 + level) / 2], axis=0)
    intervals = tuple((float(p[i] - high[i] * se[i]), float(p[i] - low[i] * se[i])) for i in range(law.size))
    errors = leave_one_out(law, x, y, weights)
    count, k = len(x), law.size
    aic = chi2 + 2 * k + (2 * k * (k + 1) / (count - k - 1) if count - k - 1 > 0 else math.inf)
    return Curve(
        law,
        p,
        se,
        intervals,
        q,
        chi2,
        aic,
        math.sqrt(float(errors.mean())),
        float(errors.std(ddof=1) / math.sqrt(count)),
    )
