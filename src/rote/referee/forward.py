"""The referee's own forward passes, written from the definition of the model and from nothing else.

They share no code with the builders or with `rote.models`: tensors come by name from the file, and every operation is
carried out in the number format that is asked for. Plain on purpose: keys are formed for every position of every head.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

__all__ = ["TORCH_DTYPES", "layer_outputs", "rows_at_once", "token_logits"]

TORCH_DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}

_NUMBERS_AT_ONCE = 16_000_000


def rows_at_once(weights: Mapping[str, Tensor], context: int) -> int:
    """How many examples fit into one pass of bounded memory."""
    heads, rank, width = weights["W_K"].shape
    outputs = weights["W_U"].shape[0] if "W_U" in weights else 1
    return max(1, min(4096, _NUMBERS_AT_ONCE // int(heads * (rank * context + width) + 4 * outputs)))


def _mixed(w: Mapping[str, Tensor], queries: Tensor, rows: Tensor) -> Tensor:
    """What the heads see: (B, H, d), for queries (B, d) and rows (B, S, d), or (S, d) where all share them."""
    heads, rank, width = w["W_Q"].shape
    asked = (queries @ w["W_Q"].reshape(heads * rank, width).T).reshape(-1, heads, 1, rank)
    keys = (rows @ w["W_K"].reshape(heads * rank, width).T).reshape(*rows.shape[:-1], heads, rank)
    if rows.ndim == 2:
        scores = torch.stack([asked[:, h, 0, :] @ keys[:, h, :].T for h in range(heads)], dim=1)
    else:
        scores = (asked @ keys.permute(0, 2, 3, 1))[:, :, 0, :]
    weight = torch.exp(scores - scores.max(dim=2, keepdim=True).values)
    weight = weight / weight.sum(dim=2, keepdim=True)
    return weight @ rows


def token_logits(weights: Mapping[str, Tensor], contexts: Tensor, dtype: torch.dtype, activation: str) -> Tensor:
    """Logits (B, N) of contexts (B, S), with weights and arithmetic in `dtype`."""
    w = {name: tensor.to(dtype) for name, tensor in weights.items()}
    stream = w["W_E"][contexts] + w["W_pos"][None, :, :]
    last = stream[:, -1, :]
    mixed = _mixed(w, last, stream)
    values = (w["W_V"][None] @ mixed[:, :, :, None])[:, :, :, 0]
    out = last + values.flatten(1) @ w["W_O"].permute(0, 2, 1).flatten(0, 1)
    if "W_gate" in w:
        gate = out @ w["W_gate"].T
        if activation == "silu":
            gate = gate * torch.sigmoid(gate)
        out = out + (gate * (out @ w["W_up"].T)) @ w["W_down"].T
    return out @ w["W_U"].T


def layer_outputs(weights: Mapping[str, Tensor], contexts: Tensor, queries: Tensor, dtype: torch.dtype) -> Tensor:
    """Outputs (B, k) of an attention layer; contexts are (B, n, d), or (n, d) when shared."""
    w = {name: tensor.to(dtype) for name, tensor in weights.items()}
    rows, asked = contexts.to(dtype), queries.to(dtype)
    values = (w["W_V"][None] @ _mixed(w, asked, rows)[:, :, :, None])[:, :, :, 0]
    return values.flatten(1) @ w["W_O"].permute(0, 2, 1).flatten(0, 1)
