"""Isotropic position: a change of coordinates after which vectors point in all directions alike.

Which sets of vectors are dependent does not change under an invertible linear map, nor when vectors are rescaled. So
both may be chosen freely, and they are chosen so that sum over t of y_t y_t^T is a multiple of the identity for unit
vectors y_t (Tyler's fixed point). Vectors with a common offset, such as hidden states, look nearly parallel as they
are; in isotropic position their coherence is as small as their directions allow, which is what every search and every
coherence bound lives on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rote.data._arrays import FloatArray as Array

__all__ = ["Isotropic", "isotropic"]


@dataclass(frozen=True)
class Isotropic:
    """Unit vectors (T x r) in isotropic position within the span, and the condition of the map that leads there."""

    unit: Array
    condition: float


def isotropic(unit: Array, rank: int) -> Isotropic:
    """Unit rows spanning `rank` dimensions, brought into isotropic position as far as the condition allows."""
    rank = max(1, rank)
    right = np.linalg.svd(unit, full_matrices=False)[2]
    y = unit @ right[:rank].T
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    condition = 1.0
    best = Isotropic(y, 1.0)
    for _ in range(12):
        values, axes = np.linalg.eigh(y.T @ y * (rank / len(y)))
        if values[0] <= 1e-14 * values[-1]:
            break
        step = axes / np.sqrt(values) @ axes.T
        condition *= float(np.sqrt(values[-1] / values[0]))  # of the product at most the product
        if condition > 1e7:
            break
        y = y @ step
        y /= np.linalg.norm(y, axis=1, keepdims=True)
        best = Isotropic(y, condition)
        if values[-1] < 1.02 * values[0]:
            break
    return best
