"""The referee's own forward passes, written from the definition of the model and from nothing else.

They share no code with the builders or with `rote.model`: tensors come by name from the file, and every operation is
carried out in the number format that is asked for. Slow and plain on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

__all__ = ["TORCH_DTYPES", "layer_outputs", "token_logits"]

TORCH_DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def token_logits(weights: Mapping[str, Tensor], contexts: Tensor, dtype: torch.dtype, activation: str) -> Tensor:
    """Logits (B, N) of contexts (B, S), with weights and arithmetic in `dtype`."""
    w = {name: tensor.to(dtype) for name, tensor in weights.items()}
    stream = w["W_E"][contexts] + w["W_pos"][None, :, :]
    last = stream[:, -1, :]
    out = last.clone()
    for h in range(w["W_Q"].shape[0]):
        query = last @ w["W_Q"][h].T
        keys = stream @ w["W_K"][h].T
        scores = (keys * query[:, None, :]).sum(dim=-1)
        weight = torch.exp(scores - scores.max(dim=1, keepdim=True).values)
        weight = weight / weight.sum(dim=1, keepdim=True)
        mixed = (weight[:, :, None] * stream).sum(dim=1)
        out = out + (mixed @ w["W_V"][h].T) @ w["W_O"][h].T
    if "W_gate" in w:
        gate = out @ w["W_gate"].T
        if activation == "silu":
            gate = gate * torch.sigmoid(gate)
        out = out + (gate * (out @ w["W_up"].T)) @ w["W_down"].T
    return out @ w["W_U"].T


def layer_outputs(weights: Mapping[str, Tensor], contexts: Tensor, queries: Tensor, dtype: torch.dtype) -> Tensor:
    """Outputs (B, k) of an attention layer; contexts are (B, n, d), or (n, d) when shared."""
    w = {name: tensor.to(dtype) for name, tensor in weights.items()}
    rows, query = contexts.to(dtype), queries.to(dtype)
    if rows.ndim == 2:
        rows = rows.expand(len(query), *rows.shape)
    out = torch.zeros(len(query), w["W_O"].shape[1], dtype=dtype)
    for h in range(w["W_Q"].shape[0]):
        probe = query @ w["W_Q"][h].T
        scores = ((rows @ w["W_K"][h].T) * probe[:, None, :]).sum(dim=-1)
        weight = torch.exp(scores - scores.max(dim=1, keepdim=True).values)
        weight = weight / weight.sum(dim=1, keepdim=True)
        mixed = (weight[:, :, None] * rows).sum(dim=1)
        out = out + (mixed @ w["W_V"][h].T) @ w["W_O"][h].T
    return out
