"""Many small convex problems at once: for every context the E_t with the least KL(pi_t || softmax(W E_t)).

Damped Newton steps, one inverse of a d x d Hessian for each context. An inverse is kept from call to call, since W
changes little between the calls of an outer optimiser, and made anew only where a step with it disappoints.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Contexts", "project"]

_CHUNK_NUMBERS = 24_000_000
_MOST_STEPS = 60
_MOST_HALVINGS = 30
_SHRINK = 0.2
_DAMPING = 0.02


def project(W: Tensor) -> Tensor:
    """The same encoder with centred, orthonormal columns: adding to all logits, or turning E, changes no prediction."""
    centred = W - W.mean(dim=0, keepdim=True)
    basis, triangle = torch.linalg.qr(centred)
    sign = torch.sign(torch.diagonal(triangle))
    made: Tensor = basis * torch.where(sign == 0, torch.ones_like(sign), sign)
    return made


class Contexts:
    """The problems of all contexts: pi (T, N) and the entropies (T,) that make the loss a divergence."""

    def __init__(self, pi: Tensor, entropies: Tensor) -> None:
        self._pi, self._entropies = pi, entropies
        self._inverse: Tensor | None = None
        self._stale = torch.ones(len(pi), dtype=torch.bool)
        self._error = torch.empty(0)  # softmax - pi at the last solution

    def solve(self, W: Tensor, E: Tensor, *, tolerance: float) -> tuple[Tensor, Tensor]:
        """E (T, d) and the divergences (T,), each within about `tolerance` nats of its least."""
        count, d = E.shape
        if self._inverse is None or self._inverse.shape[1] != d:
            self._inverse = torch.empty((count, d, d), dtype=E.dtype)
            self._stale[:] = True
        E = E.clone()
        losses, error = self._losses(W, E, slice(None))
        gradient = error @ W
        active = torch.arange(count)
        fresh = torch.zeros(count, dtype=torch.bool)
        before = torch.full((count,), float("inf"), dtype=E.dtype)
        for _ in range(_MOST_STEPS):
            fresh[active[self._stale[active]]] = True
            self._refresh(W, error, active)
            whole = len(active) == count
            slope = gradient if whole else gradient[active]
            step = torch.bmm(self._inverse if whole else self._inverse[active], slope.unsqueeze(2))[:, :, 0]
            decrement = (slope * step).sum(dim=1)
            # An inverse with which the decrement does not shrink by a lot is no good any more.
            self._stale[active[decrement > _SHRINK * before[active]]] = True
            before[active] = decrement
            going = decrement > 2 * tolerance
            if not bool(going.any()):
                break
            active, step, decrement = active[going], step[going], decrement[going]
            moved = self._search(W, E, losses, error, active, step, decrement)
            if len(active) == count:
                gradient = error @ W
            else:
                gradient[active] = error[active] @ W
            self._stale[active[~moved]] = True
            # Where even an inverse of this W finds no descent, rounding has the last word.
            active = active[moved | ~fresh[active]]
            if not len(active):
                break
        self._error = error
        return E, losses

    def slope(self, prior: Tensor, E: Tensor) -> Tensor:
        """The gradient in W of the prior-weighted divergence at the last solution."""
        return self._error.T @ (prior.unsqueeze(1) * E)

    def _losses(self, W: Tensor, E: Tensor, rows: slice | Tensor) -> tuple[Tensor, Tensor]:
        """Divergences and softmax - pi of some contexts."""
        pi = self._pi[rows]
        logits = E @ W.T
        top = torch.logsumexp(logits, dim=1)
        losses = top - (pi * logits).sum(dim=1) - self._entropies[rows]
        error = torch.exp(logits - top.unsqueeze(1)).sub_(pi)
        return losses, error

    def _refresh(self, W: Tensor, error: Tensor, active: Tensor) -> None:
        """New inverses of W^T (diag q - q q^T) W where the old ones are stale."""
        assert self._inverse is not None
        rows = active[self._stale[active]]
        if not len(rows):
            return
        d = W.shape[1]
        upper = torch.triu_indices(d, d)
        pairs = W[:, upper[0]] * W[:, upper[1]]
        size = max(1, _CHUNK_NUMBERS // max(1, pairs.shape[1] + d * d))
        for part in torch.split(rows, size):
            q = error[part] + self._pi[part]
            flat = q @ pairs
            mean = q @ W
            hessian = torch.empty((len(part), d, d), dtype=W.dtype)
            hessian[:, upper[0], upper[1]] = flat
            hessian[:, upper[1], upper[0]] = flat
            hessian -= mean.unsqueeze(2) * mean.unsqueeze(1)
            scale = torch.diagonal(hessian, dim1=1, dim2=2).mean(dim=1).clamp_min(1e-30)
            # Regularised Newton: where softmax is saturated on the wrong token the Hessian vanishes and the gradient
            # does not; a ridge of its size keeps the change of a logit below about fifty.
            spread = W.square().mean(dim=0).sum().sqrt()
            damping = _DAMPING * spread * (error[part] @ W).norm(dim=1)
            torch.diagonal(hessian, dim1=1, dim2=2).add_(damping.unsqueeze(1))
            ridge = 1e-12 if W.dtype == torch.float64 else 1e-5
            eye = torch.eye(d, dtype=W.dtype)
            factor, failed = torch.linalg.cholesky_ex(hessian + (ridge * scale)[:, None, None] * eye)
            while bool(failed.any()):
                ridge *= 100
                bad = failed > 0
                factor[bad], failed_again = torch.linalg.cholesky_ex(
                    hessian[bad] + (ridge * scale[bad])[:, None, None] * eye
                )
                failed[bad] = failed_again
            self._inverse[part] = torch.cholesky_inverse(factor)
        self._stale[rows] = False

    def _search(
        self, W: Tensor, E: Tensor, losses: Tensor, error: Tensor, active: Tensor, step: Tensor, decrement: Tensor
    ) -> Tensor:
        """Armijo's rule for each context on its own, changing E, losses and error in place; who moved."""
        moved = torch.zeros(len(active), dtype=torch.bool)
        rate = torch.ones(len(active), dtype=E.dtype)
        left = torch.arange(len(active))
        slack = 4e-16 if E.dtype == torch.float64 else 2e-7
        for _ in range(_MOST_HALVINGS):
            if len(left) == len(E):  # the whole table takes the full step, as it nearly always does: no copies
                trial = E - step
                value, wrong = self._losses(W, trial, slice(None))
                if bool((value <= losses - 1e-4 * decrement + slack * (1 + losses.abs())).all()):
                    E.copy_(trial), losses.copy_(value), error.copy_(wrong)
                    return ~moved
            rows = active[left]
            trial = E[rows] - rate[left].unsqueeze(1) * step[left]
            value, wrong = self._losses(W, trial, rows)
            level = losses[rows] - 1e-4 * rate[left] * decrement[left] + slack * (1 + losses[rows].abs())
            good = value <= level
            done = rows[good]
            E[done], losses[done], error[done] = trial[good], value[good], wrong[good]
            moved[left[good]] = True
            left = left[~good]
            if not len(left):
                break
            rate[left] *= 0.5
        return moved
