"""The same models as plain PyTorch modules: one model, one module a head, every position, as papers write them.

They are the twins that the stacked code is tested against, and the reference of the benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from rote.training.spec import ModelSpec

__all__ = ["PlainLayer", "PlainTransformer", "plain_model"]


class _Head(nn.Module):
    """One causal attention head: (B, S, width) in and out."""

    def __init__(self, width: int, d_head: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, d_head, bias=False)
        self.key = nn.Linear(width, d_head, bias=False)
        self.value = nn.Linear(width, d_head, bias=False)
        self.out = nn.Linear(d_head, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) / math.sqrt(self.query.out_features)
        later = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device), 1)
        return self.out(torch.softmax(scores.masked_fill(later, -math.inf), -1) @ self.value(x))  # type: ignore[no-any-return]


class _Mlp(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        d, m = spec.arch.d_model, spec.arch.d_mlp
        self.gate = nn.Linear(d, m, bias=False) if spec.arch.gated else None
        self.up = nn.Linear(d, m, bias=spec.family != "transformer")
        self.down = nn.Linear(m, d, bias=spec.family == "prenorm")

    def forward(self, x: Tensor) -> Tensor:
        inner = nn.functional.gelu(self.up(x)) if self.gate is None else nn.functional.silu(self.gate(x)) * self.up(x)
        return self.down(inner)  # type: ignore[no-any-return]


class _Block(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        a = spec.arch
        self.heads = nn.ModuleList([_Head(spec.width, a.d_head) for _ in range(a.n_heads)])
        self.norm_att = nn.LayerNorm(a.d_model) if spec.family == "prenorm" else nn.Identity()
        self.norm_mlp = nn.LayerNorm(a.d_model) if spec.family == "prenorm" and a.d_mlp else nn.Identity()
        self.compress = nn.Linear(a.d_model, a.d_head, bias=False) if spec.compressed else nn.Identity()
        self.expand = nn.Linear(a.d_head, a.d_model, bias=False) if spec.compressed else nn.Identity()
        self.mlp = _Mlp(spec) if a.d_mlp else None

    def forward(self, x: Tensor, beside: Tensor | None) -> Tensor:
        read = self.compress(self.norm_att(x))
        if beside is not None:
            read = read + beside
        x = x + self.expand(sum(head(read) for head in self.heads))
        return x if self.mlp is None else x + self.mlp(self.norm_mlp(x))


class PlainTransformer(nn.Module):
    """A token model; `forward` maps contexts (B, S) to logits (B, S, N) at every position."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        a = spec.arch
        self.embedding = nn.Embedding(a.vocab, a.d_model)
        self.positions = nn.Embedding(a.context, spec.width)
        self.blocks = nn.ModuleList([_Block(spec) for _ in range(a.n_layers)])
        self.norm = nn.LayerNorm(a.d_model) if spec.family == "prenorm" else nn.Identity()
        self.readout = nn.Linear(a.d_model, a.vocab, bias=False)

    def forward(self, contexts: Tensor) -> Tensor:
        x = self.embedding(contexts)
        beside: Tensor | None = self.positions.weight[: contexts.shape[1]]
        if self.spec.family != "aot":
            x, beside = x + beside, None
        for block in self.blocks:
            x = block(x, beside)
        return self.readout(self.norm(x))  # type: ignore[no-any-return]

    def named(self) -> dict[str, list[Tensor]]:
        """Parameters under the names of the stacked weights; a list where a tensor is split over heads."""
        found: dict[str, list[Tensor]] = {"W_E": [self.embedding.weight], "W_pos": [self.positions.weight]}
        for i, block in enumerate(self.blocks):
            for name, part in (("W_Q", "query"), ("W_K", "key"), ("W_V", "value"), ("W_O", "out")):
                found[f"{name}.{i}"] = [getattr(head, part).weight for head in block.heads]  # type: ignore[union-attr]
            for name, module in (("W_C", block.compress), ("W_X", block.expand)):
                if self.spec.compressed:
                    found[f"{name}.{i}"] = [module.weight]  # type: ignore[list-item, union-attr]
            norms = (("att", block.norm_att), ("mlp", block.norm_mlp))
            for name, module in norms:
                if isinstance(module, nn.LayerNorm):
                    found |= {f"gain_{name}.{i}": [module.weight], f"bias_{name}.{i}": [module.bias]}
            if isinstance(block.mlp, _Mlp):
                for name, linear in (("gate", block.mlp.gate), ("up", block.mlp.up), ("down", block.mlp.down)):
                    if linear is not None:
                        found[f"W_{name}.{i}"] = [linear.weight]
                        if linear.bias is not None:
                            found[f"b_{name}.{i}"] = [linear.bias]
        if isinstance(self.norm, nn.LayerNorm):
            found |= {"gain_out": [self.norm.weight], "bias_out": [self.norm.bias]}
        found["W_U"] = [self.readout.weight]
        return found


class PlainLayer(nn.Module):
    """The layer over vectors, as published: (B, n + 1, d) with the query first, every position computed."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        from rote.training.vectors import sinusoids

        a = spec.arch
        self.spec = spec
        self.embedding = nn.Linear(a.d_model, a.d_model)
        self.queries = nn.ParameterList([torch.empty(a.d_head, a.d_model) for _ in range(a.n_heads)])
        self.keys = nn.ParameterList([torch.empty(a.d_head, a.d_model) for _ in range(a.n_heads)])
        self.values = nn.ParameterList([torch.empty(1, a.d_model) for _ in range(a.n_heads)])
        self.out = nn.Linear(a.n_heads, a.d_model, bias=False)
        self.decoder = nn.Linear(a.d_model, spec.outputs)
        self.register_buffer("places", sinusoids(a.context + 1, a.d_model).float())

    def forward(self, rows: Tensor) -> Tensor:
        x = self.embedding(rows) + self.get_buffer("places").to(rows.dtype)
        mask = torch.zeros(x.shape[1], x.shape[1], dtype=x.dtype, device=x.device)
        mask[:, 0] = -math.inf
        seen = []
        for W_Q, W_K, W_V in zip(self.queries, self.keys, self.values, strict=True):
            scores = (x @ W_Q.T) @ (x @ W_K.T).transpose(1, 2) / math.sqrt(x.shape[2]) + mask
            seen.append(torch.softmax(scores, -1) @ (x @ W_V.T))
        return self.decoder(self.out(torch.cat(seen, -1)))  # type: ignore[no-any-return]

    def named(self) -> dict[str, list[Tensor]]:
        return {
            "W_in": [self.embedding.weight],
            "b_in": [self.embedding.bias],
            "W_Q": list(self.queries),
            "W_K": list(self.keys),
            "W_V": list(self.values),
            "W_O": [self.out.weight],
            "W_U": [self.decoder.weight],
            "b_U": [self.decoder.bias],
        }


def plain_model(spec: ModelSpec, weights: Mapping[str, Tensor]) -> PlainTransformer | PlainLayer:
    """A plain twin with the weights of one replica."""
    model = PlainLayer(spec) if spec.takes_vectors else PlainTransformer(spec)
    with torch.no_grad():
        for name, parts in model.named().items():
            whole = weights[name]
            split = [whole] if len(parts) == 1 and parts[0].shape == whole.shape else list(whole)
            for part, value in zip(parts, split, strict=True):
                part.copy_(value)
    return model
