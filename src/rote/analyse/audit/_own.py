"""Models that rote built: one attention layer over tokens, read at the last position."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rote.analyse.audit._models import AuditedModel, Watcher, as_ids, fork_seed
from rote.errors import DataError, UsageError
from rote.memory import Memory
from rote.pipeline import load

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["RoteModel"]


class RoteModel(AuditedModel):
    """A model of rote's own; every line of the text is one context."""

    def __init__(self, name: str, memory: Memory) -> None:
        arch = memory.model.arch
        self.name, self.memory, self.model = name, memory, memory.model
        self.kind, self.query = "rote", "last"
        self.n_layers, self.n_heads, self.d_model = 1, arch.n_heads, arch.d_model
        self.d_head, self.vocab = arch.d_head, arch.vocab

    @classmethod
    def open(cls, path: Path) -> AuditedModel:
        memory = load(path)
        if memory.model.stock:
            from rote.analyse.audit._hugging import HuggingModel

            class Stock(HuggingModel):
                def windows(self, text: str, context: int, samples: int, source: str) -> Tensor:
                    return as_ids(_contexts(memory, text, samples, source))

            opened = HuggingModel.open(path, gguf=None, pickle=False)
            if memory.model.wording is None:
                return opened
            return Stock(opened.name, opened.model, opened.tokenizer)
        if memory.model.wording is None:
            raise UsageError(f"{path} takes vectors, not texts; use rote check on its queries and contexts.")
        model = memory.model.reinitialised(lambda tensor: tensor.float())
        return cls(path.name, replace(memory, model=model))

    def windows(self, text: str, context: int, samples: int, source: str) -> Tensor:
        return as_ids(_contexts(self.memory, text, samples, source))

    def run(self, ids: Tensor, watcher: Watcher) -> None:
        self.model.watch(ids, watcher)

    def reinitialised(self, seed: int) -> RoteModel:
        import torch

        def draw(tensor: Tensor) -> Tensor:
            return torch.randn_like(tensor) * float(tensor.std(correction=0))

        with fork_seed(seed):
            model = self.model.reinitialised(draw)
        return RoteModel(self.name, replace(self.memory, model=model))


def _contexts(memory: Memory, text: str, samples: int, source: str) -> list[list[int]]:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise DataError(f"{source} holds no lines; give one context per line.")
    return [memory.encode([line.strip()]) for line in lines[:samples]]
