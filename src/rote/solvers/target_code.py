"""Unit vectors to aim at: one per answer, so far apart that the nearest one is unmistakable.

With targets c_j and W_U = the same vectors, a fact's margin is 1 - max_j c_g.c_j: only the largest cosine counts.
"""

from __future__ import annotations

import numpy as np

from rote.data._arrays import FloatArray as Array

__all__ = ["circle_code", "polytope_code", "spread_code"]

_STEPS = 50
_OPTIMISE_UP_TO = 4000  # above this many vectors the pairwise cosines cost more than the margin is worth


def circle_code(n: int, rng: np.random.Generator) -> Array:
    """n points evenly on the unit circle, in random order (Dana et al. 2025, Proposition 3)."""
    angle = 2 * np.pi * rng.permutation(n) / n
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def polytope_code(n: int, d: int, rng: np.random.Generator) -> Array:
    """n <= 2 d vectors b_1, -b_1, b_2, ... of a random orthonormal set: no two have a positive cosine."""
    basis = np.linalg.qr(rng.standard_normal((d, (n + 1) // 2)))[0].T
    return np.stack([basis, -basis], axis=1).reshape(-1, d)[:n].copy()


def spread_code(n: int, d: int, rng: np.random.Generator) -> Array:
    """n unit vectors in R^d with a small largest cosine: random, then descent on a soft maximum that hardens.

    Every vector is pushed away from its own nearest ones by the same angle, which shrinks from step to step.
    """
    code = rng.standard_normal((n, d))
    code /= np.linalg.norm(code, axis=1, keepdims=True)
    if n > _OPTIMISE_UP_TO or n < 2:
        return code
    best, smallest = code, _largest_cosine(code)
    moving = code.astype(np.float32)  # the exponentials dominate, and half the digits do
    for step in range(_STEPS):
        done = step / _STEPS
        cosine = moving @ moving.T
        np.fill_diagonal(cosine, -np.inf)
        peak = cosine.max()
        if peak < smallest:
            best, smallest = moving.astype(np.float64), float(peak)
        sharpness = np.float32(15 * 6**done)
        np.exp(sharpness * (cosine - peak), out=cosine)
        push = cosine @ moving
        push -= moving * np.sum(push * moving, axis=1, keepdims=True)
        push /= np.linalg.norm(push, axis=1, keepdims=True) + np.float32(1e-30)
        # Vectors whose nearest neighbour is close move most.
        near = np.minimum(cosine.max(axis=1, keepdims=True) * 2, 1)
        moving = moving - np.float32(0.15 * (1 - done)) * near * push
        moving /= np.linalg.norm(moving, axis=1, keepdims=True)
    out: Array = best / np.linalg.norm(best, axis=1, keepdims=True)
    return out


def _largest_cosine(code: Array) -> float:
    cosine = code @ code.T
    np.fill_diagonal(cosine, -np.inf)
    return float(cosine.max())
