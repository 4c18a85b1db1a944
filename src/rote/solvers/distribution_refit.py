"""The convex refit: with the unembedding fixed, the linear map from features to residual stream of least divergence.

Logits are W Psi^T phi_t, linear in Psi, so sum_t p_t KL(pi_t || softmax(W Psi^T phi_t)) is convex. Features are
whitened by the prior and the residual stream by the average Hessian, a weighted least-squares fit to the best encoder's
E is the start, and L-BFGS does the rest.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor

from rote.data import DistributionTable

__all__ = ["refit"]

_MOST_ITERATIONS = 600


def refit(phi: Tensor, W: Tensor, E: Tensor, table: DistributionTable) -> Tensor:
    """Psi (P, d) for features phi (T, P), unembedding W (N, d) and the best encoder's E (T, d)."""
    prior = torch.from_numpy(table.prior.copy())
    pi = torch.from_numpy(table.probabilities.copy())
    seen = W.abs().sum(dim=0) > 0
    W, E = W[:, seen], E[:, seen]

    gram = phi.T @ (prior.unsqueeze(1) * phi)
    ridge = 1e-11 * float(torch.diagonal(gram).mean())
    factor = torch.linalg.cholesky(gram + ridge * torch.eye(len(gram), dtype=gram.dtype))
    white = torch.linalg.solve_triangular(factor, phi.T, upper=False).T  # (T, P)

    q = torch.softmax(E @ W.T, dim=1)
    mean = q @ W
    hessian = W.T @ ((prior @ q).unsqueeze(1) * W) - mean.T @ (prior.unsqueeze(1) * mean)
    turn = torch.linalg.cholesky(hessian + 1e-10 * torch.diagonal(hessian).mean() * torch.eye(len(hessian)).double())
    # Residual streams are y turn^-1 for white coordinates y, and W turn^-T reads them.
    readout = torch.linalg.solve_triangular(turn, W.T, upper=False).T  # (N, r)
    shape = (phi.shape[1], W.shape[1])
    start = (white.T @ (prior.unsqueeze(1) * E)) @ turn
    linear = prior.unsqueeze(1) * pi @ readout  # the part of the gradient that does not change

    def function(flat: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        streams = white @ torch.from_numpy(flat.reshape(shape))
        logits = streams @ readout.T
        top = torch.logsumexp(logits, dim=1)
        value = float(prior @ top - (linear * streams).sum())
        error = torch.exp(logits - top.unsqueeze(1)) * prior.unsqueeze(1)
        slope = white.T @ (error @ readout - linear)
        return value, slope.numpy().reshape(-1)

    found = minimize(
        function,
        start.numpy().reshape(-1),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _MOST_ITERATIONS, "maxfun": 2 * _MOST_ITERATIONS, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-8},
    )
    theta = torch.from_numpy(np.asarray(found.x.reshape(shape)))
    small = torch.linalg.solve_triangular(factor.T, theta, upper=True)  # (P, r)
    psi = torch.zeros((shape[0], len(seen)), dtype=torch.float64)
    psi[:, seen] = small @ _inverse(turn)
    return psi


def _inverse(turn: Tensor) -> Tensor:
    out: Tensor = torch.linalg.solve_triangular(turn, torch.eye(len(turn), dtype=turn.dtype), upper=False)
    return out
