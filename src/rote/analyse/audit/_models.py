"""Models to be audited: Hugging Face directories, GGUF files, and rote's own, behind one face.

A model hands its states and attention weights to a watcher one layer at a time, for a batch of windows; nobody keeps
them all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rote.errors import CheckpointError, DataError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["AuditedModel", "Watcher", "open_model"]


class Watcher(Protocol):
    """What a model shows its states and heads to. Layer 0 is what enters the first block."""

    def states(self, layer: int, contexts: Tensor | None, queries: Tensor) -> None:
        """Token vectors (B, n, d), or None where only the query has one; and the query's (B, d)."""

    def heads(self, layer: int, weights: Tensor, contexts: Tensor, query: int) -> None:
        """Attention (B, H, rows, n) of block `layer`, the vectors that it averages (B, n, d), the query's row."""


class AuditedModel(ABC):
    """A model with layers, and how texts become windows of token ids."""

    name: str
    kind: str
    n_layers: int
    n_heads: int
    d_model: int
    d_head: int
    vocab: int
    query: str
    """Which token asks: "first" (CLS) or "last"."""

    @abstractmethod
    def windows(self, text: str, context: int, samples: int, source: str) -> Tensor:
        """Token ids (samples, context)."""

    @abstractmethod
    def run(self, ids: Tensor, watcher: Watcher) -> None:
        """One batch through all layers."""

    @abstractmethod
    def reinitialised(self, seed: int) -> AuditedModel:
        """The same architecture with freshly drawn weights."""


def open_model(path: Path, *, allow_pickle: bool = False) -> AuditedModel:
    """A Hugging Face directory, a .gguf file, or a model directory of rote."""
    if (path / "certificate.json").is_file():
        from rote.analyse.audit._own import RoteModel

        return RoteModel.open(path)
    from rote.analyse.audit._hugging import HuggingModel

    if path.suffix.lower() == ".gguf":
        if not path.is_file():
            raise CheckpointError(f"there is no file {path}; check the path.")
        return HuggingModel.open(path.parent, gguf=path.name, pickle=False)
    if not path.is_dir():
        raise CheckpointError(f"there is no model directory {path}; give a local directory, or a .gguf file.")
    if not (path / "config.json").is_file():
        files = sorted(p.name for p in path.glob("*.gguf"))
        hint = f"; name its GGUF file, {path / files[0]}" if files else ""
        raise CheckpointError(f"{path} has no config.json, so it is no model directory{hint}.")
    safe = list(path.glob("*.safetensors"))
    pickled = [*path.glob("pytorch_model*.bin"), *path.glob("*.pt"), *path.glob("*.pth")]
    if not safe and not pickled:
        raise CheckpointError(f"{path} has a config.json but no weights; it needs model.safetensors.")
    if not safe and not allow_pickle:
        raise CheckpointError(
            f"{path} holds its weights only as pickle ({pickled[0].name}), which can run code when it is read; convert "
            "them to safetensors, or allow pickle if you trust them."
        )
    return HuggingModel.open(path, gguf=None, pickle=not safe)


def refuse_long(context: int, most: int | None, name: str) -> None:
    """A window must fit into the model."""
    if most is not None and context > most:
        raise UsageError(f"windows of {context} tokens are longer than {name} takes, {most}; choose a smaller context.")


def as_ids(rows: list[list[int]]) -> Tensor:
    import torch

    if not rows:
        raise DataError("there are no windows to audit; give a longer text.")
    return torch.tensor(rows, dtype=torch.long)


@contextmanager
def fork_seed(seed: int) -> Iterator[None]:
    """A context in which torch draws from this seed; the global state comes back afterwards."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
