"""Models that rote built: one attention layer over tokens, read at the last position."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rote.analyse.audit._models import AuditedModel, Watcher, as_ids, fork_seed
from rote.errors import DataError, UsageError
from rote.memory import Memory, load
from rote.models.transformer import Transformer

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["RoteModel"]


class RoteModel(AuditedModel):
    """A rote transformer; every line of the text is one context."""

    def __init__(self, name: str, memory: Memory, model: Transformer) -> None:
        arch = model.arch
        self.name, self.memory, self.model = name, memory, model
        self.kind, self.query = "rote", "last"
        self.n_layers, self.n_heads, self.d_model = 1, arch.n_heads, arch.d_model
        self.d_head, self.vocab = arch.d_head, arch.vocab

    @classmethod
    def open(cls, path: Path) -> AuditedModel:
        memory = load(path)
        if memory.is_stock:
            from rote.analyse.audit._hugging import HuggingModel

            class Stock(HuggingModel):
                def windows(self, text: str, context: int, samples: int, source: str) -> Tensor:
                    return as_ids(_contexts(memory, text, samples, source))

            opened = HuggingModel.open(path, gguf=None, pickle=False)
            return Stock(opened.name, opened.model, opened.tokenizer)
        if not isinstance(memory.model, Transformer):
            raise UsageError(f"{path} takes vectors, not texts; use rote check on its queries and contexts.")
        return cls(path.name, memory, memory.model.float())

    def windows(self, text: str, context: int, samples: int, source: str) -> Tensor:
        return as_ids(_contexts(self.memory, text, samples, source))

    def run(self, ids: Tensor, watcher: Watcher) -> None:
        import torch

        with torch.no_grad():
            x = self.model._embed(ids)
            watcher.states(0, x, x[:, -1])
            weights = self.model.attention(ids)
            watcher.heads(1, weights[:, :, None, :], x, 0)
            mixed = torch.einsum("bhs,bsd->bhd", weights, x)
            values = torch.einsum("hwd,bhd->bhw", self.model.W_V, mixed)
            y = x[:, -1] + torch.einsum("hdw,bhw->bd", self.model.W_O, values)
            if self.model.arch.d_mlp:
                gate = y @ self.model.W_gate.T
                gate = torch.nn.functional.silu(gate) if self.model.activation == "silu" else gate
                y = y + (gate * (y @ self.model.W_up.T)) @ self.model.W_down.T
            watcher.states(1, None, y)

    def reinitialised(self, seed: int) -> RoteModel:
        import torch

        with fork_seed(seed):
            fresh = {
                name: torch.randn_like(tensor) * float(tensor.std(correction=0))
                for name, tensor in self.model.state_dict().items()
            }
        model = Transformer(self.model.arch, fresh, activation=self.model.activation)
        return RoteModel(self.name, self.memory, model)


def _contexts(memory: Memory, text: str, samples: int, source: str) -> list[list[int]]:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise DataError(f"{source} holds no lines; give one context a line.")
    return [memory.encode([line.strip()]) for line in lines[:samples]]
