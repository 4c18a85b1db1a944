"""What to add to the stream so that the head says a token: its row of the head, through the inverse of all rows.

So little is said of all others. Where a token has nearly the same row as another one (the ends of a text and of a
turn), its lead over that is too short for 16 bits, where logits of hundreds are whole numbers. Then the direction is
the one with the longest lead over any other token: that of a support vector machine, which points to the nearest point
of the convex hull of the differences of rows. Few rivals matter, so they are found as they turn up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

__all__ = ["directions_of"]

_ROUNDS = 8
_RIVALS = 12
_SHORT = 0.05
"""A lead that is too short, as a share of the logit."""
_ENOUGH = 0.98
"""A lead over all that is so near to that over the rivals known so far is the largest one."""


def directions_of(head: Tensor, norm: Tensor, spoken: Sequence[int]) -> np.ndarray:
    """For each token, a vector of root mean square 1; `norm` are the weights of the norm before the head."""
    rows = head.float() * norm.float()
    tokens = torch.tensor(list(spoken))
    gram = (rows.T @ rows).double()
    regular = gram + 1e-3 * gram.diagonal().mean() * torch.eye(len(gram), dtype=torch.float64)
    found = torch.linalg.solve(regular, rows[tokens].double().T).T
    rivals: list[list[int]] = [[] for _ in spoken]
    waiting = np.arange(len(tokens))
    for number in range(_ROUNDS):
        logits = found[waiting].float() @ rows.T
        own = logits.gather(1, tokens[waiting, None])
        logits.scatter_(1, tokens[waiting, None], -torch.inf)
        best = logits.topk(min(_RIVALS, len(rows) - 1), 1)
        lead = (own - best.values[:, :1])[:, 0].double()
        over = [
            float(((rows[tokens[i]] - rows[rivals[i]]).double() @ found[i]).min()) if rivals[i] else np.inf
            for i in waiting
        ]
        short = [not (0 < _ENOUGH * b <= float(a)) for a, b in zip(lead, over, strict=True)]
        if number == 0:
            short = (lead < _SHORT * own[:, 0]).tolist()
        waiting = waiting[short]
        if not len(waiting):
            break
        for i, some in zip(waiting, best.indices[torch.tensor(short)].tolist(), strict=True):
            rivals[i] = list(dict.fromkeys([*rivals[i], *some]))
            found[i] = _nearest((rows[tokens[i]] - rows[rivals[i]]).double())
    scaled: np.ndarray = (found / found.pow(2).mean(1, keepdim=True).sqrt()).numpy()
    return scaled


def _nearest(points: Tensor) -> Tensor:
    """The point of a convex hull that is nearest to zero."""
    size = float(points.norm(dim=1).mean())
    weighed = np.vstack([points.T.numpy() / size, np.full((1, len(points)), 100.0)])
    from scipy.optimize import nnls

    shares, _ = nnls(weighed, np.r_[np.zeros(points.shape[1]), 100.0])
    return torch.tensor(shares) @ points
