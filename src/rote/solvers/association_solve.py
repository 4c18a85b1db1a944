"""The linear algebra of exact association: target vectors and Psi = [G | W_O] with Phi Psi^T = targets.

A square random Phi has a few tiny singular values, and a solve along them magnifies rounding by their inverse. But the
targets are ours to choose: moved a little, they have no component along the worst left singular vectors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from rote.data._arrays import FloatArray as Array
from rote.data._arrays import IntArray
from rote.solvers.target_code import circle_code, polytope_code, spread_code

__all__ = ["Attempt", "Code", "LinearSystem", "complete", "solve_association", "target_code"]

Code = Literal["circle", "polytope", "spread"]

_SINGULAR = 1e-14  # relative to the largest singular value: a draw worse than this is thrown away
_FLAT = 0.05  # singular values of the folded map below this share of their median are lifted to it


def target_code(n_answers: int, d: int, rng: np.random.Generator) -> tuple[Array, Code]:
    """One unit target vector per answer: Proposition 3's circle at d = 2, otherwise vectors far apart.

    Up to 1.5 d answers take the vectors +-b_i of an orthonormal set: margin 1, as with one vector each, but in half the
    coordinates. The others are free, and completing G there is what keeps it well conditioned.
    """
    if n_answers <= 2 or (n_answers <= 3 * d // 2 and d > 2):
        return polytope_code(n_answers, d, rng), "polytope"
    if d == 2:
        return circle_code(n_answers, rng), "circle"
    return spread_code(n_answers, d, rng), "spread"


@dataclass(frozen=True)
class Attempt:
    psi: Array  # (d, P) = [G | W_O]
    unembedding: Array  # (answers, d)
    goal: Array  # (T, d): the target vectors
    read: Array  # (d, d): projector on the coordinates the unembedding reads
    cond: float
    cond_fold: float


def solve_association(
    phi: torch.Tensor,
    d: int,
    code: Array,
    label: IntArray,
    kind: str,
    rng: np.random.Generator,
) -> Attempt | None:
    """Steps 2 and 3: target vectors for these features, and Psi = [G | W_O] with Phi Psi^T = targets."""
    system = LinearSystem(phi, rng)
    if not system.bottom[0] > _SINGULAR * system.top:
        return None
    # The smallest change of the skip that fits: Psi is sought near [g I | 0], which it equals wherever the facts leave
    # G undetermined.
    g = 1 / math.sqrt(2 * d)
    skip = phi[:, :d]

    # Step 2: choose the target vectors. Along a left singular vector w of a tiny singular value, the solution grows
    # like w.(targets - g skip) / sigma; moving the targets a little makes that product zero for the worst few.
    C = torch.from_numpy(code)
    index = torch.from_numpy(label)
    if kind == "spread":
        C = _steer_code(system, C, index, g, skip)
        goal = C[index]
    else:
        goal = _steer_lengths(system, C, index, g, skip)

    # Step 3: the linear solve.
    start = torch.zeros((d, phi.shape[1]), dtype=torch.float64)
    start[:, :d] = g * torch.eye(d, dtype=torch.float64)
    result = np.asarray(system.near(start.T, goal).T.numpy(), dtype=np.float64)
    unembedding = np.asarray((C / C.norm(dim=1, keepdim=True)).numpy(), dtype=np.float64)
    result, read = complete(result, unembedding, d)
    singular = np.linalg.svd(result[:, :d], compute_uv=False)
    if not singular[-1] > 1e-12 * singular[0]:
        return None
    cond_fold = float(singular[0] / singular[-1])
    return Attempt(
        result,
        unembedding,
        np.asarray(goal.numpy(), dtype=np.float64),
        read,
        system.top / float(system.bottom[0]),
        cond_fold,
    )


def _steer_code(
    system: LinearSystem, code: torch.Tensor, label: torch.Tensor, g: float, skip: torch.Tensor
) -> torch.Tensor:
    """Move the code of many answers: equal answers keep equal target vectors, so y is exactly the code."""
    many = min(len(code) // 16, system.left.shape[1])
    if not many:
        return code
    one_hot = torch.zeros((len(label), len(code)), dtype=torch.float64)
    one_hot[torch.arange(len(label)), label] = 1.0
    worst = system.left[:, :many]
    blocked = worst.T @ one_hot
    code = code + torch.linalg.lstsq(blocked, g * (worst.T @ skip) - blocked @ code, driver="gelsd").solution
    # G^T becomes B C + g N0. It must not be nearly singular either, or the fold magnifies rounding: lift its smallest
    # singular values, with a change of the code that leaves the blocked directions alone.
    B, N0 = system.skip_rows(one_hot, skip.shape[1])
    basis = torch.linalg.qr(blocked.T)[0]
    reach = B - (B @ basis) @ basis.T
    U, s, Vt = torch.linalg.svd(B @ code + g * N0)
    lifted = torch.maximum(s, _FLAT * s.median())
    change = torch.linalg.lstsq(reach, (U * (lifted - s)) @ Vt, driver="gelsd").solution
    if float(change.norm(dim=1).max()) < 0.3:
        code = code + change
    return code


def _steer_lengths(
    system: LinearSystem, code: torch.Tensor, label: torch.Tensor, g: float, skip: torch.Tensor
) -> torch.Tensor:
    """Move each fact's target along its own direction, which a fact's argmax does not see: for codes with no slack."""
    goal = code[label]
    _, s, Vt = torch.linalg.svd(code, full_matrices=False)
    read = Vt[s > 1e-9 * s[0]].T  # (d, coordinates the unembedding reads)
    many = min(len(goal) // (8 * read.shape[1]), system.left.shape[1])
    seen, wanted = goal @ read, (g * skip - goal) @ read
    while many:
        worst = system.left[:, :many]
        rows = (worst.T.unsqueeze(1) * seen.T.unsqueeze(0)).reshape(-1, len(goal))
        change: torch.Tensor = torch.linalg.lstsq(rows, (worst.T @ wanted).reshape(-1, 1), driver="gelsd").solution
        if float(change.abs().max()) < 0.4:
            return goal * (1 + change)
        many //= 2
    return goal


def complete(psi: Array, unembedding: Array, d: int) -> tuple[Array, Array]:
    """Where W_U reads only some coordinates, the others are free: no heads there, and rows that complete G."""
    basis, s, _ = np.linalg.svd(unembedding.T, full_matrices=len(unembedding) < d)
    rank = int(np.sum(s > 1e-9 * s[0]))
    seen, unseen = basis[:, :rank], basis[:, rank:]
    read = seen @ seen.T
    if rank == d:
        return psi, read
    upper = seen.T @ psi  # (rank, P)
    _, singular, right = np.linalg.svd(upper[:, :d])
    rest = right[rank:] * np.exp(np.mean(np.log(np.maximum(singular, 1e-12 * singular[0]))))
    lower = np.concatenate([rest, np.zeros((d - rank, psi.shape[1] - d))], axis=1)
    return seen @ upper + unseen @ lower, read


class LinearSystem:
    """One factorisation of Phi (LU if square, QR of its transpose if wide) and what is asked of it."""

    def __init__(self, phi: torch.Tensor, rng: np.random.Generator) -> None:
        self._phi = phi
        rows, cols = phi.shape
        self._square = rows == cols
        if self._square:
            self._lu, self._pivots, singular = torch.linalg.lu_factor_ex(phi)
            if int(singular):
                # An exactly singular draw: nothing is smaller than a singular value of zero.
                self.top, self.bottom, self.left = float(phi.norm()), torch.zeros(1), phi[:, :0]
                return
        else:
            self._factor, self._tau = torch.geqrf(phi.T)
            self._R = self._factor[:rows].triu()
        # Extreme singular values, and the left singular vectors of the smallest, by (inverse) subspace iteration.
        many = min(rows, 16)
        block = torch.from_numpy(rng.standard_normal((rows, many)))
        top = 0.0
        vector = block[:, :1]
        for _ in range(10):
            vector = phi @ (phi.T @ (vector / vector.norm()))
            top = math.sqrt(float(vector.norm()))
        self.top = top
        left = torch.linalg.qr(block)[0]
        for _ in range(4):
            image = self._gram_inverse(left)
            if not bool(torch.isfinite(image).all()):
                self.bottom, self.left = torch.zeros(1), left[:, :0]
                return
            left = torch.linalg.qr(image)[0]
        core = left.T @ self._gram_inverse(left)
        values, turn = torch.linalg.eigh((core + core.T) / 2)
        self.bottom = values.flip(0).clamp_min(1e-300).rsqrt()  # ascending singular values
        self.left = left @ turn.flip(1)

    def _gram_inverse(self, x: torch.Tensor) -> torch.Tensor:
        """(Phi Phi^T)^-1 x."""
        if self._square:
            return self._lu_solve(self._lu_solve(x), adjoint=True)
        inner = torch.linalg.solve_triangular(self._R.T, x, upper=False)
        out: torch.Tensor = torch.linalg.solve_triangular(self._R, inner, upper=True)
        return out

    def _lu_solve(self, x: torch.Tensor, *, adjoint: bool = False) -> torch.Tensor:
        out: torch.Tensor = torch.linalg.lu_solve(self._lu, self._pivots, x, adjoint=adjoint)
        return out

    def solve(self, b: torch.Tensor) -> torch.Tensor:
        """The smallest x (P, k) with Phi x = b."""
        if self._square:
            return self._lu_solve(b)
        rows, cols = self._phi.shape
        padded = torch.zeros((cols, b.shape[1]), dtype=b.dtype)
        padded[:rows] = torch.linalg.solve_triangular(self._R.T, b, upper=False)
        return torch.ormqr(self._factor, self._tau, padded)

    def near(self, start: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The x next to `start` with Phi x = b, refined until the residual stops shrinking."""
        x, size = start.clone(), math.inf
        for _ in range(4):
            residual = b - self._phi @ x
            now = float(residual.abs().max())
            if not now < 0.5 * size:
                break
            size, x = now, x + self.solve(residual)
        return x

    def skip_rows(self, one_hot: torch.Tensor, d: int) -> tuple[torch.Tensor, torch.Tensor]:
        """B, N0 such that for targets Y C, sought near g on the skip, the solution's first d rows are B C + g N0."""
        if self._square:
            unit = torch.zeros((len(self._phi), d), dtype=torch.float64)
            unit[:d] = torch.eye(d, dtype=torch.float64)
            rows = self._lu_solve(unit, adjoint=True)
        else:  # pinv(Phi)^T = (Phi Phi^T)^-1 Phi
            rows = self._gram_inverse(self._phi[:, :d].contiguous())
        return rows.T @ one_hot, torch.eye(d, dtype=torch.float64) - rows.T @ self._phi[:, :d]
