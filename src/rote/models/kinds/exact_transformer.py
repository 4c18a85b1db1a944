"""Exact transformers of bit extraction: token ids (or vectors) in, labels out, with weights of any number of bits.

One made for floats is an ordinary torch module (`ReluTransformer`); any other is run in exact arithmetic. Both say a
label, or one label per position; there is no second guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rote.config import Architecture
from rote.data.outputs import Outputs
from rote.data.table import Table
from rote.models import folders
from rote.models._base import Answer, Model, Wording
from rote.models.kinds._relu_transformer import ReluTransformer, tensors_of
from rote.referee import Stored
from rote.referee.judges.exact_transformer import judge as exact_judge
from rote.solvers.exact.checkpoint import read_transformer
from rote.solvers.exact.grouped import grouped_labels
from rote.solvers.exact.transformer import UNKNOWN, ExactTransformer

__all__ = ["ExactModule", "ExactTransformerModel", "model"]

NO_LABEL = "(unknown: this context is none of the facts)"
IntArray = Any


class ExactModule(nn.Module):
    """It has no parameters that torch knows: its weights have too many bits for any number format."""

    def __init__(self, exact: ExactTransformer) -> None:
        super().__init__()
        self.exact = exact
        self._outputs = exact_judge.outputs(_stored(exact), "exact", _shortcut(exact))

    def stored(self) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
        """What a directory holds of it: the kind, what the configuration says, and the tensors."""
        return "exact_transformer", self.exact.to_dict(), tensors_of(self.exact)

    def forward(self, contexts: Tensor) -> Tensor:
        """Labels (B,) or (B, S) of contexts (B, S); -1 where the network gives none."""
        return torch.as_tensor(self._outputs.labels((contexts.numpy(),)))


def _stored(exact: ExactTransformer) -> Stored:
    return Stored("exact_transformer", exact.to_dict(), tensors_of(exact))


def _shortcut(exact: ExactTransformer) -> Callable[[IntArray], IntArray | None]:
    """The grouped evaluator, which checks first that the network is the canonical one, weight by weight."""
    return lambda keys: grouped_labels(exact, keys)


class ExactTransformerModel(Model):
    """A bit-extraction transformer. Its size is depth, weights that are not zero, and bits."""

    kind = "exact_transformer"
    speaks_labels = True

    def __init__(
        self, exact: ExactTransformer, wording: Wording | None, *, report: Mapping[str, Any] | None = None
    ) -> None:
        self.exact, self.wording, self.report = exact, wording, dict(report or {})
        self.arch = Architecture(
            n_heads=1,
            d_model=exact.width,
            d_head=1,
            context=exact.context,
            vocab=max(2, exact.vocab),
            n_layers=exact.depth,
            d_mlp=exact.width,
        )
        self._module: nn.Module | None = None

    @property
    def module(self) -> nn.Module:
        if self._module is None:
            floats = self.exact.precision != "exact"
            self._module = (
                ReluTransformer(self.exact, getattr(torch, self.exact.precision)) if floats else ExactModule(self.exact)
            )
        return self._module

    @property
    def counts(self) -> dict[str, int]:
        return {"full": self.exact.params}

    @property
    def stored(self) -> int:
        return self.exact.params

    def write(self, folder: Path) -> None:
        exact = self.exact
        folders.write_model(
            folder, self.kind, self.arch, tensors_of(exact), self.wording, dtype=exact.precision, **exact.to_dict()
        )

    @classmethod
    def read(cls, folder: Path, certificate: Mapping[str, Any]) -> ExactTransformerModel:
        config, arch = folders.read_config(folder, cls.kind)
        tensors = folders.read_tensors(folder / "model.safetensors")
        exact = read_transformer(config, {name: tensor.numpy() for name, tensor in tensors.items()})
        return cls(exact, None if exact.d_in else folders.read_wording(folder, certificate, arch))

    @classmethod
    def examples(cls, seed: int) -> list[ExactTransformerModel]:
        from rote.solvers.exact.memorise import check_variant, memorise_sequences

        contexts, labels = np.array([[0, 1], [1, 2], [2, 3], [0, 3]]), np.array([0, 1, 1, 0])
        wording, small = Wording(("a", "b", "c", "d"), "cells", 2), []
        for precision in ("exact", "float64"):
            network = memorise_sequences(
                contexts, labels, 2, 4, (1, 3), precision=precision, variant=check_variant(None, precision),
                with_positions=False, rng=np.random.default_rng(seed),
            )  # fmt: skip
            small.append(cls(network.transformer, wording))
        return small

    def outputs(self, dtype: str) -> Outputs:
        return exact_judge.module_outputs(_stored(self.exact), self.module, dtype)

    def shortcut(self) -> Callable[[IntArray], IntArray | None]:
        return _shortcut(self.exact)

    def _labels(self, contexts: Tensor) -> list[list[float]]:
        with torch.no_grad():
            rows: list[list[float]] = self.module(contexts).reshape(len(contexts), -1).to(torch.float64).tolist()
        return rows

    def _spelled(self, label: float) -> str | None:
        known = self.exact.labels
        assert self.wording is not None, "labels of tokens need a vocabulary"
        if label != int(label) or not 0 <= label < len(known) or known[int(label)] == UNKNOWN:
            return None
        return self.wording.vocabulary[known[int(label)]]

    @property
    def tells_unknown(self) -> bool:
        return self.exact.knows_unknown

    def answers(self, words: Sequence[str], top: int) -> list[Answer]:
        """One label per sequence, or one per position."""
        labels = self._labels(torch.tensor([self.ids(words)]))[0]
        tokens = [self._spelled(label) for label in labels]
        if None in tokens:
            return [Answer(NO_LABEL, 0.0, 0.0, unknown=True)]
        return [Answer(str(token), 1.0, label) for token, label in zip(tokens, labels, strict=True)]

    def first_answers(self, contexts: Any) -> list[str]:
        rows = self._labels(torch.tensor(contexts))
        return [" ".join(self._spelled(label) or "(unknown)" for label in row) for row in rows]

    def trace(self, ids: Sequence[int]) -> dict[str, Any] | None:
        """The digits that the network shifts out of its weights, step by step."""
        from rote.solvers.exact.trace import digit_trace

        if self.wording is None:
            return None
        record = digit_trace(self.exact, ids).to_dict()
        record["steps"] = [{**step, "token": self._spelled(step["label"]) or "–"} for step in record["steps"]]
        return {**record, "variant": self.exact.variant, "precision": self.exact.precision}

    def export(self, path: Path, table: Table) -> dict[str, Any]:
        """Write the model of floats as ONNX if onnxruntime gives every fact its label; what was found, plain."""
        from rote.models._onnx import onnx_bytes, onnx_labels, onnx_written

        if self.wording is None or self.exact.precision == "exact":
            return super().export(path, table)
        content = onnx_bytes(self.exact)
        count, wanted = table.n_facts, self._numbers(table)
        lost = int((onnx_labels(content, table.inputs(slice(0, count))[0]) != wanted).reshape(count, -1).any(1).sum())
        return onnx_written(path, content, count, lost, self.exact.precision)

    def _numbers(self, table: Table) -> Any:
        """The label number of every target; -2 for a target that no label stands for."""
        numbers = np.full(max(2, self.arch.vocab), -2, dtype=np.int64)
        for number, token in enumerate(self.exact.labels):
            if token != UNKNOWN:
                numbers[token] = number
        return numbers[np.asarray(getattr(table, "targets", None))]


model = ExactTransformerModel
