"""What the heads of an attention model do with one context.

The stream is a sum, so the lead of the answer over its rival is one too: u = W_U[answer] - W_U[rival], and
lead = u . x_S + sum_h u . W_O^h W_V^h sum_s a^h_s x_s (+ what an MLP adds). The heads with the largest parts serve the
fact. A head is saturated where one position has all its weight but `SATURATED`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rote.models.transformer import Transformer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rote.memory import Memory

__all__ = ["SATURATED", "Head", "HeadsView", "look_at_heads"]

SATURATED = 1e-6
"""What a saturated head leaves to all other positions together."""


@dataclass(frozen=True)
class Head:
    """One head: its weights over the context, and its part of the lead (None where the readout is not linear)."""

    layer: int
    number: int
    weights: tuple[float, ...]
    saturated: bool
    part: float | None


@dataclass(frozen=True)
class HeadsView:
    """All heads on one context."""

    heads: tuple[Head, ...]
    n_saturated: int
    answer: str
    rival: str
    lead: float
    skip: float | None
    """What the last token adds by itself."""
    mlp: float | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def look_at_heads(memory: Memory, ids: Sequence[int]) -> HeadsView | None:
    """The heads on a context of token ids; None for models without attention over tokens."""
    if isinstance(memory.model, Transformer):
        return _own(memory, memory.model, ids)
    if memory.is_stock:
        return _stock(memory, ids)
    return None


def _own(memory: Memory, model: Transformer, ids: Sequence[int]) -> HeadsView:
    import torch

    with torch.no_grad():
        tokens = torch.tensor([list(ids)])
        logits = model(tokens)[0].to(torch.float64)
        answer, rival = (int(i) for i in torch.topk(logits, min(2, len(logits))).indices.tolist())
        W = {name: weight.to(torch.float64) for name, weight in model.state_dict().items()}
        x = W["W_E"][tokens[0]] + W["W_pos"]
        attention = model.attention(tokens)[0].to(torch.float64)
        mixed = attention @ x
        added = torch.einsum("hdw,hwe,he->hd", W["W_O"], W["W_V"], mixed)
        towards = W["W_U"][answer] - W["W_U"][rival]
        parts = (added @ towards).tolist()
        skip = float(x[-1] @ towards)
    lead = float(logits[answer] - logits[rival])
    mlp = lead - skip - sum(parts) if model.arch.d_mlp else None
    heads = tuple(
        Head(0, number, tuple(weights), max(weights) > 1 - SATURATED, part)
        for number, (weights, part) in enumerate(zip(attention.tolist(), parts, strict=True))
    )
    return _view(memory, heads, answer, rival, lead, skip, mlp)


def _stock(memory: Memory, ids: Sequence[int]) -> HeadsView:
    """Weights only: a stock model normalises its stream, so that parts do not add up."""
    import torch

    from rote.data import PAD

    model: Any = memory.model
    kept = [i for i in ids if memory.vocabulary[i] != PAD]
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(torch.tensor([kept]), output_attentions=True, use_cache=False)
    logits = out.logits[0, -1].to(torch.float64)
    answer, rival = (int(i) for i in torch.topk(logits, min(2, len(logits))).indices.tolist())
    missing = (0.0,) * (len(ids) - len(kept))
    heads = []
    for layer, found in enumerate(out.attentions):
        for number, weights in enumerate(found[0, :, -1].to(torch.float64).tolist()):
            heads.append(Head(layer, number, missing + tuple(weights), max(weights) > 1 - SATURATED, None))
    return _view(memory, tuple(heads), answer, rival, float(logits[answer] - logits[rival]), None, None)


def _view(
    memory: Memory,
    heads: tuple[Head, ...],
    answer: int,
    rival: int,
    lead: float,
    skip: float | None,
    mlp: float | None,
) -> HeadsView:
    words = memory.vocabulary
    saturated = sum(head.saturated for head in heads)
    return HeadsView(heads, saturated, words[answer], words[rival], lead, skip, mlp)
