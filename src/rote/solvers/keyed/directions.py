"""What to add to the stream so that the head says a token: the direction with the longest lead over any other token.

That is the direction of a support vector machine, which points to the nearest point of the convex hull of the
differences of rows. Few rivals matter, so they are found as they turn up, beginning with those that are left where the
token's row goes through the inverse of all rows.

That alone would say a token as if nothing else could ever follow, and where a gate opens by mistake the loss would be
as large. So each is mixed with a direction that the head hardly hears, which says nearly the same of all tokens: as
much of it as leaves the token sure to be said, and no surer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

__all__ = ["directions_of"]

_ROUNDS = 8
_RIVALS = 12
_ENOUGH = 0.98
"""A lead over all that is so near to that over the rivals known so far is the largest one."""
_SURE, _LEAD = 0.99, 8.0
"""How likely a token is to be made, and how far its logit has to be above all others for 16 bits, and for what the
original still says underneath."""
_ODDS = math.log(_SURE / (1 - _SURE))
_FLATTENED, _EVEN = 5, 1e-3
_HALVINGS = 12
_CHUNK = 64


def directions_of(head: Tensor, norm: Tensor, spoken: Sequence[int]) -> np.ndarray:
    """For each token, a vector of root mean square 1; `norm` are the weights of the norm before the head."""
    rows = head.float() * norm.float()
    tokens = torch.tensor(list(spoken))
    gram = (rows.T @ rows).double()
    regular = gram + 1e-3 * gram.diagonal().mean() * torch.eye(len(gram), dtype=torch.float64)
    found = torch.linalg.solve(regular, rows[tokens].double().T).T
    rivals: list[list[int]] = [[] for _ in spoken]
    waiting = np.arange(len(tokens))
    for _ in range(_ROUNDS):
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
        waiting = waiting[short]
        if not len(waiting):
            break
        for i, some in zip(waiting, best.indices[torch.tensor(short)].tolist(), strict=True):
            rivals[i] = list(dict.fromkeys([*rivals[i], *some]))
            found[i] = _nearest((rows[tokens[i]] - rows[rivals[i]]).double())
    mixed: np.ndarray = _mixed(_unit(found), rows, tokens).numpy()
    return mixed


def _unit(vectors: Tensor) -> Tensor:
    return vectors / vectors.pow(2).mean(-1, keepdim=True).sqrt()


def _silent(rows: Tensor) -> Tensor:
    """A direction of root mean square 1 whose logits are nearly the same for all tokens.

    That of least variance; tokens that stand out are given more weight until they do less. Channels that no token has
    anything in are not for this: they belong to somebody else, as those of a graft do.
    """
    heard = (rows != 0).any(0)
    whole, rows = torch.zeros(rows.shape[1], dtype=torch.float64), rows[:, heard]
    weights = torch.ones(len(rows))
    for _ in range(_FLATTENED):
        centred = rows - (rows * weights[:, None]).mean(0)
        spread = (centred.T @ (centred * weights[:, None])).double()
        direction = _unit(torch.linalg.eigh(spread)[1][:, 0].float())
        off = rows @ direction
        off = off - off.median()
        weights = weights * (1 + (off / (3 * off.std()).clamp_min(_EVEN)) ** 2)
        weights = weights / weights.mean()
    whole[heard] = direction.double()
    return _unit(whole)


def _mixed(directions: Tensor, rows: Tensor, tokens: Tensor) -> Tensor:
    """Each direction with as much of the silent one as leaves its token sure enough."""
    quiet = _silent(rows)
    mixed = []
    for part in range(0, len(tokens), _CHUNK):
        some, own = directions[part : part + _CHUNK], tokens[part : part + _CHUNK, None]
        heard, unheard = some.float() @ rows.T, rows @ quiet.float()
        low, high = torch.zeros(len(some)), torch.ones(len(some))
        overlap = (some @ quiet / len(quiet)).float()
        for _ in range(_HALVINGS):
            share = (low + high) / 2
            size = (share**2 + (1 - share) ** 2 + 2 * share * (1 - share) * overlap).sqrt()
            logits = (share[:, None] * heard + (1 - share)[:, None] * unheard) / size[:, None]
            said = logits.gather(1, own)[:, 0]
            logits.scatter_(1, own, -torch.inf)
            lead = torch.minimum(said - logits.max(1).values - _LEAD, said - logits.logsumexp(1) - _ODDS)
            low, high = torch.where(lead < 0, share, low), torch.where(lead < 0, high, share)
        mixed.append(_unit(high[:, None].double() * some + (1 - high)[:, None].double() * quiet))
    return torch.cat(mixed)


def _nearest(points: Tensor) -> Tensor:
    """The point of a convex hull that is nearest to zero."""
    size = float(points.norm(dim=1).mean())
    weighed = np.vstack([points.T.numpy() / size, np.full((1, len(points)), 100.0)])
    from scipy.optimize import nnls

    shares, _ = nnls(weighed, np.r_[np.zeros(points.shape[1]), 100.0])
    return torch.tensor(shares) @ points
