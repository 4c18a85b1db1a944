"""How many random labels can a linear readout on these states memorise?

Real labels: as many as the rank of [states, 1], since a linear system is solved. Binary labels: the largest number of
examples, in the order given, for which a hyperplane gives random labels exactly; Cover's theorem says about twice the
rank for states in general position. Separability is decided by minimising a squared hinge on whitened states.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rote.assumptions._independence import Rows
from rote.data._arrays import FloatArray as Array

__all__ = ["Readout", "readout"]


@dataclass(frozen=True)
class Readout:
    """`real` arbitrary real labels and `binary` random signs fit; `capped` says that the samples ran out first."""

    real: int
    binary: int
    samples: int
    capped: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def readout(states: Array, roundoff: float, rng: np.random.Generator) -> Readout:
    """Both counts for states (T x d) of T examples."""
    count = len(states)
    centred = states - states.mean(axis=0)
    scale = float(np.linalg.norm(centred, axis=1).mean()) or 1.0
    extended = np.concatenate([centred / scale, np.ones((count, 1))], axis=1)
    real = Rows(extended, roundoff).rank().lower
    left, singular, _ = np.linalg.svd(extended, full_matrices=False)
    white = left[:, singular > 8 * roundoff * count**0.5 * singular[0]] * count**0.5
    signs = rng.choice([-1.0, 1.0], count)
    low, high = min(real, count), count
    if low < count and _separable(white, signs):
        return Readout(real, count, count, True)
    while high - low > max(1, count // 100):
        middle = (low + high) // 2
        if _separable(white[:middle], signs[:middle]):
            low = middle
        else:
            high = middle
    return Readout(real, low, count, low >= count)


def _separable(features: Array, signs: Array) -> bool:
    from scipy.optimize import minimize

    signed = features * signs[:, None]

    def loss(w: Array) -> tuple[float, Array]:
        short = np.maximum(0.0, 1.0 - signed @ w)
        return float(short @ short), -2.0 * (short @ signed)

    optimum = minimize(loss, np.zeros(features.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 400})
    return bool(np.all(signed @ optimum.x > 0))
