"""The smallest change of one matrix that gives some contexts another answer and moves all others as little as can be.

The last matrix before the readout adds M f to the stream, where f are the features of a context. The new answer needs
M f to move by u, the shortest vector with which it leads all others by a margin. Of all D with D f = u for the contexts
in question, the one that is taken has the least sum, over all other facts, of |D f|^2 weighed by how little they can
stand: D = U (K' C^-1 K)^-1 K' C^-1, where C is the weighed second moment of the other facts' features. Its rank is the
number of contexts. Where there are more features than facts, the others do not move at all, but for rounding.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["least_change", "shortest_move"]

Array = npt.NDArray[np.float64]

_RIVALS = 200
"""Other answers that are looked at; those far behind do not matter, and are checked in the end."""
_ROUNDS = 20
_RIDGE = 1e-9


def shortest_move(readout: Array, stream: Array, target: int, margin: float) -> Array:
    """The shortest u so that `readout @ (stream + u)` is largest at the target, by at least the margin.

    Least distance programming, by non-negative least squares; answers that come too near are added round by round.
    """
    from scipy.optimize import nnls

    moved = np.zeros_like(stream)
    active: list[int] = []
    for _ in range(_ROUNDS):
        scores = readout @ (stream + moved)
        behind = scores[target] - scores - margin
        behind[target] = np.inf
        near = [int(i) for i in np.argsort(behind)[:_RIVALS] if behind[i] < -1e-9 * max(1.0, margin)]
        if not near:
            return moved
        active = list(dict.fromkeys([*active, *near]))
        rows = readout[target] - readout[active]
        needed = margin - rows @ stream
        solved, left = nnls(np.concatenate([rows.T, needed[None]]), np.eye(len(stream) + 1)[-1])
        if left < 1e-12:
            # No move puts this answer before all others.
            return np.full_like(stream, np.nan)
        residual = np.concatenate([rows.T, needed[None]]) @ solved - np.eye(len(stream) + 1)[-1]
        moved = -residual[:-1] / residual[-1]
    return moved


def least_change(features: Array, weights: Array, keys: Array, moves: Array) -> Array:
    """D (d, p) with D keys = moves, keys (p, K), moves (d, K), that moves the other features (T, p) the least."""
    moment = (features * weights[:, None]).T @ features
    ridge = _RIDGE * max(float(np.trace(moment)) / max(1, len(moment)), 1e-300)
    moment[np.diag_indices(len(moment))] += ridge
    whitened = np.linalg.solve(moment, keys)
    change: Array = moves @ np.linalg.solve(keys.T @ whitened, whitened.T)
    return change
