"""The judge of hashed tables: saturated heads, then a chain of ReLU layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
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


class _Forward:
    """The forward pass of a stored hashed table, in a number format; every position asks, or the last one only."""

    def __init__(self, stored: Stored, dtype: str, every_position: bool) -> None:
        self._number = TORCH_DTYPES[dtype]
        self._chain = [_Layer(stored.tensor(name).detach().to(self._number)) for name in _layer_names(stored)]
        names = ("W_E", "W_pos", "W_Q", "W_K", "W_V")
        self._w = {name: stored.tensor(name).detach().to(self._number) for name in names}
        self._rows = _rows(stored, len(self._w["W_E"]))
        self._heads = int(stored.config.get("architecture", {}).get("n_heads", 1))
        self._asked = len(self._w["W_pos"]) if every_position else 1

    @property
    def vocab(self) -> int:
        return len(self._rows)

    @property
    def rows_at_once(self) -> int:
        marks, (length, d) = len(self._w["W_K"]) // max(1, self._heads), self._w["W_pos"].shape
        each = max(layer.units for layer in self._chain) + len(self._w["W_V"]) + length
        width = self._asked * each + length * (d + marks + 2)
        return max(1, min(2048, _NUMBERS_AT_ONCE // width))

    def read(self, contexts: Tensor) -> Tensor:
        """What the layers read, for every position that asks: codes of tokens as heads copy them, and the constant."""
        w = self._w
        if contexts.shape[1] != len(w["W_pos"]):
            raise UsageError(
                f"this model reads contexts of {len(w['W_pos'])} tokens, these facts have {contexts.shape[1]}."
            )
        if int(contexts.max()) >= len(self._rows):
            raise UsageError(
                f"this model knows {len(self._rows):,} tokens, these facts have more; it was made for others."
            )
        x = w["W_E"][self._rows[contexts]] + w["W_pos"]
        copied = _copied(w, x, self._heads, self._asked).flatten(0, 1)
        return torch.cat([copied, torch.ones(len(copied), 1, dtype=self._number)], dim=1)

    def scores(self, contexts: Tensor) -> Tensor:
        stream = self.read(contexts)
        for layer in self._chain[:-1]:
            stream = layer(stream).clamp(min=0)
        return self._chain[-1](stream)


class HashedTransformerJudge(Judge):
    every_position = False
    """Whether every position asks, or the last one only."""
    Outputs: Callable[..., Scores] = ClassScores

    def outputs(self, stored: Stored, dtype: str, shortcut: Callable[..., Any] | None) -> Scores:
        forward = _Forward(stored, dtype, self.every_position)
        labels = _ids(stored, "labels")
        return self.Outputs(forward.scores, labels, forward.vocab, rows_at_once=forward.rows_at_once)

    def notices(self, one: Stored, other: Stored, dtype: str) -> Callable[[Inputs], npt.NDArray[np.bool_]] | None:
        """If only some inputs of one layer are weighed differently, a context for which the units there are 0 goes
        through the same numbers as before, whatever they are weighed with."""
        names = _layer_names(one)
        if one.config != other.config or set(one.tensors) != set(other.tensors):
            return None
        apart = [name for name in one.tensors if not torch.equal(one.tensor(name), other.tensor(name))]
        finite = all(bool(tensor.isfinite().all()) for stored in (one, other) for tensor in stored.tensors.values())
        if not finite or len(apart) > 1 or not set(apart) <= set(names[1:]):
            return None
        if not apart:
            return lambda inputs: np.zeros(len(inputs[0]), dtype=np.bool_)
        number, last = TORCH_DTYPES[dtype], names.index(apart[0])
        matrices = [one.tensor(name).detach().to(number) for name in names[:last]]
        wanted = (one.tensor(apart[0]) != other.tensor(apart[0])).any(dim=0)
        # Back to front: of every layer those units that somebody reads.
        for i in reversed(range(last)):
            matrices[i] = matrices[i][wanted]
            wanted = (matrices[i] != 0).any(dim=0)
            if i:
                matrices[i] = matrices[i][:, wanted]
        forward, chain = _Forward(one, dtype, self.every_position), [_Layer(matrix) for matrix in matrices]

        def noticed(inputs: Inputs) -> npt.NDArray[np.bool_]:
            with torch.no_grad():
                stream = forward.read(torch.tensor(np.asarray(inputs[0])))
                for layer in chain:
                    stream = layer(stream).clamp(min=0)
                moved = (stream > 0).any(dim=1).reshape(len(inputs[0]), -1).any(dim=1)
                return np.asarray(moved.numpy(), dtype=np.bool_)

        return noticed

    def module_outputs(self, stored: Stored, module: nn.Module, dtype: str) -> Scores:
        said = super().module_outputs(stored, module, dtype).said
        return self.Outputs(lambda tokens: said((tokens,)), _ids(stored, "labels"), len(_rows(stored, 1)))


def _layer_names(stored: Stored) -> list[str]:
    """The matrices of the chain, in order."""
    return sorted((n for n in stored.tensors if n.startswith("layers.")), key=lambda n: int(n.split(".")[1]))


def _copied(w: dict[str, Tensor], x: Tensor, heads: int, asked: int) -> Tensor:
    """What the heads hand over to the last so many positions, side by side: for each head the values where it looks.

    Half precision is computed in single precision and rounded after every step, which is what machines do, and faster
    here than asking for it step by step.
    """
    number = x.dtype
    wide = torch.float64 if number == torch.float64 else torch.float32

    def rounded(values: Tensor) -> Tensor:
        return values.to(number).to(wide)

    parts, x = [], x.to(wide)
    for W_Q, W_K, W_V in zip(*(w[name].to(wide).chunk(heads) for name in ("W_Q", "W_K", "W_V")), strict=True):
        scores = rounded(rounded(x[:, -asked:] @ W_Q.T) @ rounded(x @ W_K.T).transpose(1, 2))
        weights = rounded(torch.exp(rounded(scores - scores.max(dim=2, keepdim=True).values)))
        weights = rounded(weights / rounded(weights.sum(dim=2, keepdim=True)))
        parts.append(rounded(weights @ x) @ W_V.T)
    return torch.cat(parts, dim=2).to(number)


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
            # What comes next will be alike: it is not looked at again.
            self._by_input = None
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
