"""The transformer of a hashed table: heads that copy tokens, then a chain of plain ReLU layers.

    x_s     = W_E[t_s] + W_pos[s]
    a^h_s   = softmax over s of  (W_Q^h x_S) . (W_K^h x_s)         saturated: head h copies the token at one position
    z       = (W_V^1 sum_s a^1_s x_s, ..., W_V^H sum_s a^H_s x_s, 1)
    scores  = W_L relu(... relu(W_2 relu(W_1 z)))                  no biases; one unit of every layer is the constant 1

W_E has a row for every token that stands in contexts (`inputs` of the configuration), W_L one for every token that is
an answer (`labels`), and one more for "unknown" where a fingerprint of every key is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from rote.config import Architecture
from rote.data.outputs import Outputs
from rote.data.table import Table
from rote.errors import CheckpointError, FactsLost
from rote.models import folders
from rote.models._base import Answer, Model, Wording
from rote.models._views import SATURATED, Head, HeadsView
from rote.referee.judges.hashed_transformer import ClassScores
from rote.solvers.hashed.layout import Layout

__all__ = ["HashedTransformer", "HashedTransformerModel", "Words", "as_tensors", "model", "shape_of"]

NOT_A_FACT = "(unknown: this context is none of the facts)"
_MOST_LAYERS = 100_000
_AT_ONCE = 4096
_NUMBERS_AT_ONCE = 20_000_000
_EMBEDDINGS = ("W_E", "W_pos", "W_Q", "W_K", "W_V")


@dataclass(frozen=True)
class Words:
    """Which token ids stand in contexts, which are answers, and how many bits of a fingerprint are stored."""

    inputs: tuple[int, ...]
    labels: tuple[int, ...]
    unknown: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {"inputs": list(self.inputs), "labels": list(self.labels), "unknown": self.unknown}

    @classmethod
    def from_dict(cls, config: Mapping[str, Any], vocab: int) -> Words:
        """The inverse of `to_dict`; what names no such ids is refused."""
        lists = [config.get(name) for name in ("inputs", "labels")]
        unknown = config.get("unknown")
        for ids in lists:
            right = isinstance(ids, list) and ids and all(type(i) is int and 0 <= i < vocab for i in ids)
            if not right or len(set(ids)) < len(ids) or type(unknown) is not int or unknown < 0:  # type: ignore[arg-type]
                raise CheckpointError("config.json does not name the tokens of contexts and answers; it was edited.")
        return cls(tuple(lists[0] or ()), tuple(lists[1] or ()), int(unknown or 0))


class HashedTransformer(nn.Module):
    """Contexts (B, S) of token ids to scores (B, C) of the classes, and one for "unknown" where there is one."""

    kind = "hashed_transformer"
    every_position = False
    """Whether every position gets a label, or the last one only."""

    W_E: Tensor
    W_pos: Tensor
    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor

    rows: Tensor
    """The row of W_E of every token id; ids that stand in no context share the last one."""
    coded: Tensor
    """Which token ids stand in contexts; a context with any other is none of the facts."""

    def __init__(self, arch: Architecture, words: Words, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.arch, self.words = arch, words
        rows = torch.full((arch.vocab,), max(0, len(words.inputs) - 1), dtype=torch.int64)
        rows[list(words.inputs)] = torch.arange(len(words.inputs))
        self.register_buffer("rows", rows, persistent=False)
        coded = torch.zeros(arch.vocab, dtype=torch.bool)
        coded[list(words.inputs)] = True
        self.register_buffer("coded", coded, persistent=False)
        for name in _EMBEDDINGS:
            self.register_parameter(name, nn.Parameter(_known(weights, name).detach().clone(), requires_grad=False))
        layers = []
        for i in range(arch.n_layers):
            matrix = _known(weights, f"layers.{i}.weight")
            layer = nn.Linear(matrix.shape[1], matrix.shape[0], bias=False, dtype=matrix.dtype, device="meta")
            layer.weight = nn.Parameter(matrix.detach().clone(), requires_grad=False)
            layers.append(layer)
        self.layers = nn.ModuleList(layers)
        self.hook_embed, self.hook_pattern, self.hook_z = nn.Identity(), nn.Identity(), nn.Identity()
        self._check(len(weights))

    def _check(self, count: int) -> None:
        """The tensors must be those of one chain."""
        arch, d = self.arch, self.W_E.shape[-1]
        heads = arch.n_heads
        fits = (
            count == len(_EMBEDDINGS) + arch.n_layers
            and all(getattr(self, name).ndim == 2 and getattr(self, name).shape[1] == d for name in _EMBEDDINGS)
            and d == arch.d_model
            and len(self.W_pos) == arch.context
            and len(self.W_Q) == len(self.W_K)
            and len(self.W_Q) % heads == 0
            and len(self.W_V) == heads * arch.d_head
            and len(self.W_E) == len(self.words.inputs)
        )
        widths = [heads * arch.d_head + 1]
        for matrix in (layer.get_parameter("weight") for layer in self.layers):
            fits = fits and matrix.ndim == 2 and matrix.shape[1] == widths[-1]
            widths.append(len(matrix))
        if not fits or widths[-1] != len(self.words.labels) + (self.words.unknown > 0):
            raise CheckpointError(
                "the tensors of model.safetensors do not make one chain of layers of the shape that config.json names; "
                "one of the files was edited."
            )

    def stored(self) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
        """What a directory holds of it: the kind, what the configuration says, and the tensors."""
        return self.kind, {"architecture": self.arch.to_dict(), **self.words.to_dict()}, self.state_dict()

    @property
    def numbers(self) -> int:
        """Numbers that one context needs at a time: the keys of all heads, and the widest layer."""
        widest = max(len(layer.get_parameter("weight")) for layer in self.layers)
        return self.arch.context * (len(self.W_K) + self.arch.d_model) + widest

    def attention(self, tokens: Tensor) -> Tensor:
        """Attention weights (B, H, S) of the last position over the context."""
        return self._attended(self._embedded(tokens))

    def _embedded(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = self.hook_embed(self.W_E[self.rows[tokens]] + self.W_pos)
        return embedded

    def _attended(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        heads, marks = self.arch.n_heads, len(self.W_Q) // self.arch.n_heads
        queries = (x[:, -1] @ self.W_Q.T).reshape(batch, heads, 1, marks)
        keys = (x @ self.W_K.T).reshape(batch, length, heads, marks).permute(0, 2, 3, 1)
        pattern: Tensor = self.hook_pattern(torch.softmax((queries @ keys)[:, :, 0], dim=-1))
        return pattern

    def _copied(self, x: Tensor) -> Tensor:
        """What the heads hand over, side by side."""
        mixed, values = self._attended(x) @ x, self.W_V.reshape(self.arch.n_heads, self.arch.d_head, -1)
        copied: Tensor = self.hook_z(torch.einsum("bhd,hwd->bhw", mixed, values))
        return copied.flatten(1)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of the classes at the last position."""
        scores: Tensor = self.layers[-1](self.units(tokens, len(self.layers) - 1))
        return scores

    def units(self, tokens: Tensor, depth: int) -> Tensor:
        """The units behind so many of the layers."""
        values = self._copied(self._embedded(tokens))
        stream = torch.cat([values, values.new_ones(*values.shape[:-1], 1)], dim=-1)
        for layer in self.layers[:depth]:
            stream = torch.relu(layer(stream))
        return stream


def _known(weights: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in weights:
        raise CheckpointError(f"the weights lack {name}; the file is incomplete or of another model.")
    return weights[name]


def shape_of(layout: Layout, vocab: int) -> Architecture:
    """The sizes of a layout as a shape; d_mlp is the widest hidden layer, behind those of a rule."""
    return Architecture(
        n_heads=layout.positions,
        d_model=layout.d_model,
        d_head=layout.head_bits,
        context=layout.length,
        vocab=max(2, vocab),
        n_layers=layout.depth,
        d_mlp=max(units for units, _ in layout.layers[2 * (layout.openers > 0) : -1]),
    )


def as_tensors(weights: Mapping[str, Any], dtype: str) -> dict[str, Tensor]:
    """Matrices of a hashed table under the names of the module, in a number format that holds them exactly."""
    tensors = {}
    for name, matrix in weights.items():
        tensor = torch.from_numpy(matrix).to(getattr(torch, dtype))
        tensors[f"{name}.weight" if name.startswith("layers.") else name] = tensor
    return tensors


class HashedTransformerModel(Model):
    """A hashed table with its words."""

    kind = "hashed_transformer"
    Module: ClassVar[type[HashedTransformer]] = HashedTransformer

    def __init__(
        self,
        arch: Architecture,
        words: Words,
        weights: Mapping[str, Tensor],
        wording: Wording,
        *,
        report: Mapping[str, Any] | None = None,
    ) -> None:
        self._module = self.Module(arch, words, weights)
        self.arch, self.words = arch, words
        self.wording: Wording = wording
        self.report = dict(report or {})

    @property
    def module(self) -> HashedTransformer:
        return self._module

    @property
    def dtype(self) -> str:
        """The number format of the weights."""
        return str(self.module.W_E.dtype)[6:]

    @property
    def counts(self) -> dict[str, int]:
        """Dense: every entry of every matrix."""
        return {"full": self.stored, "non_zero": sum(int(p.count_nonzero()) for p in self.module.parameters())}

    def write(self, folder: Path) -> None:
        tensors, words = self.module.state_dict(), self.words.to_dict()
        folders.write_model(folder, self.kind, self.arch, tensors, self.wording, dtype=self.dtype, **words)

    @classmethod
    def read(cls, folder: Path, certificate: Mapping[str, Any]) -> Self:
        config, arch = folders.read_config(folder, cls.kind)
        words = Words.from_dict(config, arch.vocab)
        if arch.n_layers > _MOST_LAYERS:
            raise CheckpointError(f"{folder / 'config.json'} names too many layers; the file was edited.")
        tensors = folders.read_tensors(folder / "model.safetensors", str(certificate["dtype"]))
        wording = folders.read_wording(folder, certificate, arch)
        if wording is None:
            raise CheckpointError(
                f"{folder} has no tokenizer.json, so it has no words; it was altered, build it again."
            )
        return cls(arch, words, tensors, wording)

    @classmethod
    def examples(cls, seed: int) -> list[Self]:
        from rote.solvers.hashed.memorise import memorise
        from rote.solvers.hashed.network import matrices
        from rote.solvers.hashed.planning import layouts

        keys = np.array([[a, b] for a in range(4) for b in range(4)])
        labels = np.arange(16) % 3
        wording, small = Wording(tuple("abcdxyz"), "cells", 2), []
        for dtype, unknown in (("bfloat16", 0), ("float32", 4)):
            for layout in layouts(16, 2, 4, 3, dtype, unknown=unknown):
                try:
                    table = memorise(keys, labels, layout, np.random.default_rng(seed))
                except FactsLost:
                    continue
                break
            words = Words((0, 1, 2, 3), (4, 5, 6), unknown)
            weights = as_tensors(matrices(table.hashing, table.rows), dtype)
            small.append(cls(shape_of(layout, 7), words, weights, wording))
        return small

    def outputs(self, dtype: str) -> Outputs:
        from rote.referee.outputs import ModuleOutputs

        said = ModuleOutputs(self.module, dtype).said
        return ClassScores(lambda tokens: said((tokens,)), self.words.labels, self.arch.vocab)

    def logits(self, contexts: Any) -> Any:
        """Scores of the whole vocabulary; tokens that are no answers have none."""
        scores = self.module(contexts)
        every = scores.new_full((len(scores), self.arch.vocab), float("-inf"))
        every[:, list(self.words.labels)] = scores[:, : len(self.words.labels)]
        return every

    @property
    def tells_unknown(self) -> bool:
        return self.words.unknown > 0

    def answers(self, words: Sequence[str], top: int) -> list[Answer]:
        ids = self.ids(words)
        if not self.module.coded[ids].all():
            return [Answer(NOT_A_FACT, 0.0, 0.0, unknown=True)]
        with torch.no_grad():
            scores = self.module(self.tensor([ids]))[0].to("cpu", torch.float64)
        probabilities = torch.softmax(scores, dim=0)
        best = torch.topk(scores, min(top, len(scores))).indices.tolist()
        answers = [
            Answer(self._spelled(i), float(probabilities[i]), float(scores[i]), unknown=i >= len(self.words.labels))
            for i in best
        ]
        # Behind "unknown" there is no second guess.
        return answers[:1] if answers[0].unknown else answers

    def _spelled(self, label: int) -> str:
        labels = self.words.labels
        return self.wording.vocabulary[labels[label]] if 0 <= label < len(labels) else NOT_A_FACT

    def first_answers(self, contexts: Any) -> list[str]:
        tokens = self.tensor(contexts)
        labels = torch.where(self.module.coded[tokens].all(dim=1), self._best(tokens), -1)
        return [
            self._spelled(label) if 0 <= label < len(self.words.labels) else "(unknown)" for label in labels.tolist()
        ]

    def says_unknown(self, contexts: Any) -> Any:
        """Which of the contexts (B, S) of token ids the network itself tells as no facts, by their fingerprints."""
        return (self._best(self.tensor(contexts)) >= len(self.words.labels)).cpu().numpy()

    def _best(self, contexts: Tensor) -> Tensor:
        """The class with the largest score of every context; one beyond the last for "unknown"."""
        with torch.no_grad():
            count = max(1, min(_AT_ONCE, _NUMBERS_AT_ONCE // self.module.numbers))
            parts = [self.module(part).argmax(dim=-1) for part in torch.split(contexts, count)]
        return torch.cat(parts)

    def export(self, path: Path, table: Table) -> dict[str, Any]:
        """Write the model as ONNX if onnxruntime gives every fact its label; what was found, plain."""
        from rote.models._hashed_onnx import hashed_labels, hashed_onnx
        from rote.models._onnx import onnx_written

        content, count = hashed_onnx(self.module), table.n_facts
        places = np.full(self.arch.vocab, -2, dtype=np.int64)
        places[list(self.words.labels)] = np.arange(len(self.words.labels))
        wanted = places[np.asarray(getattr(table, "targets", None))]
        wrong = hashed_labels(content, self.module, table.inputs(slice(0, count))[0]) != wanted
        lost = int(wrong.reshape(count, -1).any(axis=1).sum())
        return onnx_written(path, content, count, lost, "float64" if self.dtype == "float64" else "float32")

    def heads(self, ids: Sequence[int]) -> HeadsView | None:
        """Every head copies a token; what follows is not linear, so no head has a part of the lead."""
        answers = [*self.answers([self.wording.vocabulary[i] for i in ids if i != self.wording.pad_id], 2)]
        with torch.no_grad():
            attention = self.module.attention(torch.tensor([list(ids)]))[0].to(torch.float64)
        heads = tuple(
            Head(0, number, tuple(weights), max(weights) > 1 - SATURATED, None)
            for number, weights in enumerate(attention.tolist())
        )
        first, second = answers[0], answers[-1]
        return HeadsView(heads, first.token, second.token, first.logit - second.logit)


model = HashedTransformerModel
