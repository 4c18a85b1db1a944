"""One layer over contexts of two tokens, all N^2 pairs at once, from the tables of N projected tokens.

With a = first token, b = last token and the logistic weight A^h_ba of the first,

    y_ba = x_b + sum_h V^h_b + sum_h A^h_ba (U^h_a - V^h_b),     U^h = W_O^h W_V^h x at position 1, V^h at position 2.

The sums over heads are matrix products batched over a and over b: nothing of size H d N^2 is ever formed. Worth it when
the facts are a good part of all pairs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rote.training.forward import Weights, mlp
from rote.training.spec import ModelSpec
from rote.training.tables import TokenStack

__all__ = ["all_pairs", "pair_logits", "worthwhile"]


def worthwhile(spec: ModelSpec, facts: TokenStack) -> bool:
    """Whether computing all pairs is less work than computing the facts one by one."""
    arch = spec.arch
    plain = arch.context == 2 and arch.n_layers == 1 and spec.family in ("transformer", "aot")
    return plain and arch.vocab**2 <= 2.5 * facts.n_facts and not arch.d_mlp


def all_pairs(facts: TokenStack, vocab: int) -> TokenStack:
    """The same facts as weights on the table of all pairs: column b N + a holds the pair (a, b)."""
    r = facts.replicas
    at = facts.contexts[:, 1] * vocab + facts.contexts[:, 0]
    weights = torch.zeros(r, vocab * vocab, dtype=facts.weights.dtype, device=at.device)
    weights.scatter_add_(1, at, facts.weights)
    targets = torch.zeros(r, vocab * vocab, dtype=torch.int64, device=at.device)
    real = facts.weights > 0
    rows = torch.arange(r, device=at.device)[:, None].expand_as(at)
    targets[rows[real], at[real]] = facts.targets[real]
    column = torch.arange(vocab * vocab, device=at.device)
    contexts = torch.stack([column % vocab, column // vocab])[None].expand(r, -1, -1)
    return TokenStack(contexts, targets, weights)


def pair_logits(spec: ModelSpec, w: Weights) -> Tensor:
    """Logits (R, N, N^2), in the order of `all_pairs`."""
    W_E, W_pos = w["W_E"], w["W_pos"]
    W_Q, W_K, W_V, W_O = (w[f"{name}.0"] for name in ("W_Q", "W_K", "W_V", "W_O"))
    r, n, d = W_E.shape
    h, k, width = W_Q.shape[1:]
    read = torch.bmm(W_E, w["W_C.0"].transpose(1, 2)) if spec.compressed else W_E
    x1, x2 = read + W_pos[:, None, 0], read + W_pos[:, None, 1]
    base = x2 if spec.family == "transformer" else W_E

    def heads(x: Tensor, maps: Tensor) -> Tensor:
        """(R, H, k, N): a token table through every head's map."""
        return torch.bmm(maps.reshape(r, h * k, width), x.transpose(1, 2)).view(r, h, k, n)

    asked = heads(x2, W_Q) * (1 / math.sqrt(spec.arch.d_head))
    own = (asked * heads(x2, W_K)).sum(2)
    share = torch.sigmoid(torch.matmul(asked.transpose(2, 3), heads(x1, W_K)) - own[..., None])
    U = torch.matmul(W_O, heads(x1, W_V))
    V = torch.matmul(W_O, heads(x2, W_V))
    # Batched over the first token, then over the last one.
    by_first = share.permute(0, 3, 2, 1).reshape(r * n, n, h)
    by_last = share.permute(0, 2, 3, 1).reshape(r * n, n, h)
    plus = torch.bmm(by_first, U.permute(0, 3, 1, 2).reshape(r * n, h, width)).view(r, n, n, width)
    minus = torch.bmm(by_last, V.permute(0, 3, 1, 2).reshape(r * n, h, width)).view(r, n, n, width)
    seen = plus.transpose(1, 2) - minus + V.sum(1).transpose(1, 2)[:, :, None]
    seen = seen.reshape(r, n * n, width)
    if spec.compressed:
        seen = torch.bmm(seen, w["W_X.0"].transpose(1, 2))
    y = (seen.view(r, n, n, d) + base[:, :, None]).view(r, n * n, d).transpose(1, 2)
    if spec.arch.d_mlp:
        y = y + mlp(spec, w, 0, y)
    return torch.bmm(w["W_U"], y)
