"""The judge of hashed tables: saturated heads, then a chain of ReLU layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rote.data.outputs import Leads
from rote.errors import CheckpointError, UsageError
from rote.referee._base import Judge, Stored
from rote.referee.forward import TORCH_DTYPES
from rote.referee.outputs import Scores

if TYPE_CHECKING:
    from torch import nn

    from rote.data.table import Inputs

__all__ = ["ClassScores", "HashedTransformerJudge", "judge"]

_NUMBERS_AT_ONCE = 2_000_000
"""What stays in a processor's cache; larger batches were slower."""
_FEWEST = 64
"""Inputs, units and examples from which it pays to look for zeros."""
_RARE = 16
"""An input that is not 0 for fewer than one in so many examples is rare."""


class ClassScores(Scores):
    """A model with a score for every token that is an answer, and perhaps one more for "unknown"."""

    def __init__(
        self, run: Callable[..., Any], labels: tuple[int, ...], vocab: int, *, rows_at_once: int = 4096
    ) -> None:
        super().__init__(run, takes="tokens", rows_at_once=rows_at_once)
        self._labels = np.array(labels)
        self._places = np.full(vocab + 1, -1)
        self._places[self._labels] = np.arange(len(labels))

    def leads(self, inputs: Inputs, targets: Any) -> Leads:
        goals = np.asarray(targets)
        if goals.ndim != 1:
            raise UsageError("this model gives one answer per context; give it facts with one target.")
        places = self._places[np.minimum(goals, len(self._places) - 1)]
        # A token that is no answer of the model is never said.
        said, rival = super().leads(inputs, np.maximum(places, 0))
        best = np.where(rival < len(self._labels), self._labels[np.minimum(rival, len(self._labels) - 1)], -1)
        return np.where(places >= 0, said, -np.inf), best

    def scores(self, inputs: Inputs) -> Tensor:
        said = self.said(inputs)
        every = said.new_full((len(said), len(self._places) - 1), float("-inf"))
        every[:, self._labels] = said[:, : len(self._labels)]
        return every


class HashedTransformerJudge(Judge):
    every_position = False
    """Whether every position asks, or the last one only."""
    Outputs: Callable[..., Scores] = ClassScores

    def outputs(self, stored: Stored, dtype: str, shortcut: Callable[..., Any] | None) -> Scores:
        number, shape = TORCH_DTYPES[dtype], stored.config.get("architecture", {})
        names = sorted((n for n in stored.tensors if n.startswith("layers.")), key=lambda n: int(n.split(".")[1]))
        chain = [_Layer(stored.tensor(name).detach().to(number)) for name in names]
        w = {name: stored.tensor(name).detach().to(number) for name in ("W_E", "W_pos", "W_Q", "W_K", "W_V")}
        rows, labels = _rows(stored, len(w["W_E"])), _ids(stored, "labels")
        heads = int(shape.get("n_heads", 1))

        def scores(contexts: Tensor) -> Tensor:
            if contexts.shape[1] != len(w["W_pos"]):
                raise UsageError(
                    f"this model reads contexts of {len(w['W_pos'])} tokens, these facts have {contexts.shape[1]}."
                )
            if int(contexts.max()) >= len(rows):
                raise UsageError(
                    f"this model knows {len(rows):,} tokens, these facts have more; it was made for others."
                )
            x = w["W_E"][rows[contexts]] + w["W_pos"]
            copied = _copied(w, x, heads, asked).flatten(0, 1)
            stream = torch.cat([copied, torch.ones(len(copied), 1, dtype=number)], dim=1)
            for i, layer in enumerate(chain):
                stream = layer(stream)
                if i < len(chain) - 1:
                    stream = stream.clamp(min=0)
            return stream

        marks, (length, d) = len(w["W_K"]) // max(1, heads), w["W_pos"].shape
        asked = length if self.every_position else 1
        width = asked * (max(layer.units for layer in chain) + len(w["W_V"]) + length) + length * (d + marks + 2)
        most = max(1, min(2048, _NUMBERS_AT_ONCE // width))
        return self.Outputs(scores, labels, len(rows), rows_at_once=most)

    def module_outputs(self, stored: Stored, module: nn.Module, dtype: str) -> Scores:
        said = super().module_outputs(stored, module, dtype).said
        return self.Outputs(lambda tokens: said((tokens,)), _ids(stored, "labels"), len(_rows(stored, 1)))


def _copied(w: dict[str, Tensor], x: Tensor, heads: int, asked: int) -> Tensor:
    """What the heads hand over to the last so many positions, side by side: for each head the values where it looks."""
    parts = []
    for W_Q, W_K, W_V in zip(*(w[name].chunk(heads) for name in ("W_Q", "W_K", "W_V")), strict=True):
        scores = (x[:, -asked:] @ W_Q.T) @ (x @ W_K.T).transpose(1, 2)
        weights = torch.exp(scores - scores.max(dim=2, keepdim=True).values)
        weights = weights / weights.sum(dim=2, keepdim=True)
        parts.append((weights @ x) @ W_V.T)
    return torch.cat(parts, dim=2)


class _Layer:
    """One matrix product. Sums of products of half precision are taken in single precision and rounded once, as
    machines do. Where most inputs are 0, as behind units of which each example has one, only the others are multiplied.
    """

    def __init__(self, matrix: Tensor) -> None:
        self._matrix, self.units = matrix, len(matrix)
        self._wide = torch.float64 if matrix.dtype == torch.float64 else torch.float32
        # Zeros count as soon as something is not finite.
        large = min(matrix.shape) >= _FEWEST and bool(matrix.isfinite().all())
        self._by_input = matrix.T.to(self._wide).contiguous() if large else None

    def __call__(self, stream: Tensor) -> Tensor:
        if self._by_input is None or len(stream) < _FEWEST:
            return self._product(stream)
        examples, inputs = torch.nonzero(stream, as_tuple=True)
        values = stream[examples, inputs]
        rare = torch.bincount(inputs, minlength=stream.shape[1]) < len(stream) / _RARE
        if 2 * int(rare.sum()) < len(rare) or not bool(values.isfinite().all()):
            return self._product(stream)
        often, kept = torch.nonzero(~rare)[:, 0], rare[inputs]
        sums = stream[:, often].to(self._wide) @ self._by_input[often]
        counts = torch.bincount(examples[kept], minlength=len(stream))
        sums += torch.nn.functional.embedding_bag(
            inputs[kept],
            self._by_input,
            torch.cumsum(counts, dim=0) - counts,
            mode="sum",
            per_sample_weights=values[kept].to(self._wide),
        )
        return sums.to(stream.dtype)

    def _product(self, stream: Tensor) -> Tensor:
        if stream.dtype == torch.float16:
            # In single precision without the slow detours of half precision.
            return (stream.float() @ self._matrix.float().T).to(torch.float16)
        return stream @ self._matrix.T


def _ids(stored: Stored, name: str) -> tuple[int, ...]:
    ids = stored.config.get(name)
    if not isinstance(ids, list) or not ids or not all(type(i) is int and i >= 0 for i in ids):
        raise CheckpointError(f"config.json names no {name}; the file was edited, build the model again.")
    return tuple(ids)


def _rows(stored: Stored, count: int) -> Tensor:
    """The row of the embedding of every token id; tokens that stand in no context have the last one's."""
    vocab = int(stored.config.get("architecture", {}).get("vocab", 0))
    inputs = _ids(stored, "inputs")
    if max(inputs) >= vocab or max(_ids(stored, "labels")) >= vocab:
        raise CheckpointError("config.json names tokens that the model does not have; the file was edited.")
    rows = torch.full((vocab,), max(0, count - 1), dtype=torch.int64)
    rows[list(inputs)] = torch.arange(len(inputs))
    return rows


judge = HashedTransformerJudge()
