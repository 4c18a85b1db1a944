"""Vector facts: queries against contexts of real vectors, with class labels or real targets.

Notation: T = n_examples, n = context, d = d_model, k = width of a real target. As in Mahdavi et al. 2024, an example is
(a context of n vectors, one query vector) -> label or target; the context may be one and the same for all examples.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rote.config import Dtype, Shape
from rote.data._arrays import FloatArray, IntArray, freeze
from rote.data._atomic import write_atomically
from rote.data.contents import regular
from rote.data.demand import Demand
from rote.data.outputs import Outputs
from rote.data.reading import Choices, Reading
from rote.data.source import Source
from rote.data.table import Inputs, Table
from rote.data.verification import Tally, Verification, score_leads
from rote.errors import DataError, UsageError

__all__ = ["VectorTable"]

_MOST_DIGITS = 18


@dataclass(frozen=True, eq=False, repr=False)
class VectorTable(Table):
    """T examples; the arrays are read-only float64 copies.

    `contexts` is T x n x d, or n x d for a context shared by all examples. `targets` are labels 0 .. n_classes - 1
    (int64, shape T) when `n_classes` is given, and real numbers (shape T or T x k) otherwise.
    """

    contexts: FloatArray
    queries: FloatArray
    targets: FloatArray | IntArray
    n_classes: int | None = None
    name: str = "vectors"
    reading: Reading | None = None

    kind: ClassVar[str] = "vectors"
    endings: ClassVar[tuple[str, ...]] = (".safetensors",)
    noun: ClassVar[str] = "examples"

    def __post_init__(self) -> None:
        queries = _reals(self.queries, "queries", (2,), "T x d")
        contexts = _reals(self.contexts, "contexts", (2, 3), "T x n x d, or n x d if shared")
        if 0 in queries.shape or 0 in contexts.shape:
            raise DataError(f"no axis may be empty: queries have shape {queries.shape}, contexts {contexts.shape}.")
        if contexts.shape[-1] != queries.shape[1]:
            raise DataError(
                f"contexts and queries must agree on the last axis, the width d: contexts have {contexts.shape[-1]}, "
                f"queries {queries.shape[1]}."
            )
        if contexts.ndim == 3 and len(contexts) != len(queries):
            raise DataError(
                f"contexts and queries must agree on the first axis, the examples: contexts have {len(contexts)}, "
                f"queries {len(queries)}; give one n x d context if all examples share it."
            )
        targets: FloatArray | IntArray
        if self.n_classes is None:
            targets = _reals(self.targets, "targets", (1, 2), "T or T x k")
        else:
            targets = _labels(self.targets, self.n_classes)
        if len(targets) != len(queries):
            raise DataError(
                f"targets and queries must agree on the first axis, the examples: targets have {len(targets)}, "
                f"queries {len(queries)}."
            )
        if targets.ndim == 2 and targets.shape[1] == 0:
            raise DataError("real targets need at least one number each, got 0.")
        freeze(self, contexts=contexts, queries=queries, targets=targets)

    @property
    def shared(self) -> bool:
        """One context for all examples."""
        return self.contexts.ndim == 2

    @property
    def n_facts(self) -> int:
        return len(self.queries)

    @property
    def n_examples(self) -> int:
        """The papers' word for `n_facts`."""
        return len(self.queries)

    @property
    def context(self) -> int:
        """Vectors per context."""
        return int(self.contexts.shape[-2])

    @property
    def d_model(self) -> int:
        return int(self.queries.shape[1])

    def sequences(self) -> FloatArray:
        """Sequences (T, n + 1, d): the context's vectors, and the query as the last token."""
        rows = (self.n_examples, self.context, self.d_model)
        contexts = np.broadcast_to(self.contexts, rows) if self.shared else self.contexts
        # Adding 0 makes -0.0 and 0.0 one token.
        return np.concatenate([contexts, self.queries[:, None, :]], axis=1) + 0.0

    @cached_property
    def sha256(self) -> str:
        """A hash of the content (not of the name): equal for equal tables, on every machine."""
        digest = hashlib.sha256(b"rote.VectorTable.1\n")
        for array in (self.contexts, self.queries, self.targets):
            kind = "<i8" if array.dtype == np.int64 else "<f8"
            digest.update(f"{kind}{array.shape}\n".encode())
            digest.update((array + 0).astype(kind, copy=False).tobytes())  # + 0 makes -0.0 and 0.0 one value
        digest.update(f"classes {self.n_classes}".encode())
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """Name, sizes and hash, ready for JSON."""
        return {
            "name": self.name,
            "n_facts": self.n_facts,
            "context": self.context,
            "d_model": self.d_model,
            "shared": self.shared,
            "n_classes": self.n_classes,
            "d_target": None if self.n_classes is not None else self.targets[0].size,
            "sha256": self.sha256,
        }

    def fact_text(self, i: int) -> str:
        return f"example {i + 1} -> {self._target_text(i)}"

    def _target_text(self, i: int) -> str:
        goal = self.targets[i].reshape(-1)[0]
        return f"{float(goal):.6g}" if self.n_classes is None else str(int(goal))

    @property
    def extent(self) -> str:
        targets = "real targets" if self.n_classes is None else f"{self.n_classes} classes"
        return f"{'one shared context' if self.shared else 'contexts'} of {self.context} x {self.d_model}, {targets}"

    @property
    def bits(self) -> float:
        """One bit for a real target: how many it carries depends on the tolerance."""
        return self.n_facts * math.log2(max(2, self.n_classes or 2))

    def demand(self, dtype: Dtype, shape: Shape) -> Demand:
        if shape.d_model not in (None, self.d_model):
            raise UsageError(f"the vectors have {self.d_model} dimensions, so d_model cannot be {shape.d_model}.")
        return Demand(
            self.n_facts,
            max(2, self.n_classes or 2),
            self.context,
            dtype,
            self.d_model,
            shape.n_heads,
            d_head=shape.d_head,
            vectors=True,
            shared_context=self.shared,
        )

    def inputs(self, part: slice) -> Inputs:
        """(contexts, queries); a shared context stays n x d."""
        return (self.contexts if self.shared else self.contexts[part], self.queries[part])

    def score(self, outputs: Outputs, dtype: str, *, tolerance: float = 1e-3) -> Verification:
        """Class labels have to lead; real targets are recalled within `tolerance` of the largest (at least of 1)."""
        if self.n_classes is not None:
            return score_leads(
                self,
                self.targets,
                outputs,
                dtype,
                context_text=lambda i: f"example {i + 1}",
                target_text=str,
            )
        scale = max(1.0, float(np.abs(self.targets).max()))
        tally, largest = Tally(), 0.0
        for part in outputs.parts(self.n_facts):
            answers = outputs.values(self.inputs(part)).detach().cpu().double().numpy()
            goals = self.targets[part].reshape(len(answers), -1)
            if answers.size != goals.size:
                raise UsageError(
                    f"these examples have {goals.shape[1]} real target{'s' if goals.shape[1] > 1 else ''} each, and "
                    f"the model gives {answers.size // len(answers)} numbers; it was made for other targets."
                )
            errors = np.abs(answers.reshape(goals.shape) - goals).max(axis=1) / scale
            largest = max(largest, float("inf") if np.isnan(errors).any() else float(errors.max()))

            def told(row: int, start: int = part.start, answers: FloatArray = answers) -> tuple[str, str, str]:
                said = f"{float(answers[row].reshape(-1)[0]):.6g}"
                return f"example {start + row + 1}", self._target_text(start + row), said

            tally.add(part.start, tolerance - errors, told)
        return tally.result(self, outputs, dtype, largest)

    @classmethod
    def examples(cls, rng: np.random.Generator) -> list[VectorTable]:
        from rote.data.generate import random_vectors

        shared = random_vectors(5, 2, 3, rng=rng, sharing="shared")
        wide = dataclasses.replace(shared, targets=rng.normal(size=(5, 2)))
        return [random_vectors(7, 4, 3, rng=rng, n_classes=3), shared, wide]

    @classmethod
    def claims(cls, source: Source, choices: Choices) -> int:
        return 2 if source.ending == ".safetensors" else 0

    @classmethod
    def of(cls, source: Source, choices: Choices, name: str | None = None) -> VectorTable:
        """What `write` wrote. Labels without a stored number of classes count up to the largest label."""
        if source.path is None or source.has_rows:
            raise UsageError(
                f"{source.name} is a table of cells, and vectors were asked for: a .safetensors file of queries and "
                "contexts. Give such a file, or choose what takes facts."
            )
        if dataclasses.replace(choices, kind=None) not in (Choices(), Choices(tokens="cells")):
            raise UsageError("vectors have no columns, tokens or contradictions; leave those choices out.")
        notes, tensors = _tensors(source.path)
        n_classes: int | None = None
        if "labels" in tensors:
            stored = notes.get("n_classes", "")
            if stored and not (stored.isdecimal() and len(stored) < _MOST_DIGITS):
                raise DataError(f"{source.path}: n_classes must be a whole number, got {stored[:_MOST_DIGITS]!r}.")
            n_classes = int(stored) if stored else int(tensors["labels"].max(initial=0)) + 1
        goals = tensors["labels"] if n_classes is not None else tensors["targets"]
        known = name or notes.get("name", source.path.stem)
        reading = dataclasses.replace(source.reading(choices), n_rows=len(goals))
        return cls(tensors["contexts"], tensors["queries"], goals, n_classes, known, reading)

    def write(self, path: str | os.PathLike[str]) -> Choices:
        """Write a safetensors file with `contexts`, `queries`, and `labels` or `targets`."""
        if Path(path).suffix.lower() != ".safetensors":
            raise UsageError(f"vectors are written to a file that ends in .safetensors, got {Path(path).name!r}.")
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        tensors = {
            "contexts": np.ascontiguousarray(self.contexts),
            "queries": np.ascontiguousarray(self.queries),
            "targets" if self.n_classes is None else "labels": np.ascontiguousarray(self.targets),
        }
        notes = {"format": "rote.VectorTable.1", "name": self.name}
        if self.n_classes is not None:
            notes["n_classes"] = str(self.n_classes)

        def fill(part: Path) -> None:
            try:
                save_file(tensors, part, metadata=notes)
            except SafetensorError as error:
                raise OSError(str(error)) from error

        write_atomically(Path(path), fill)
        return Choices(self.kind)


table = VectorTable


def _tensors(file: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """The notes and the tensors of a file."""
    from safetensors import SafetensorError, safe_open

    regular(file)
    try:
        with safe_open(file, framework="numpy") as opened:
            notes = opened.metadata() or {}
            tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118  (not a dict)
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise DataError(f"{file} is not a safetensors file that can be read ({error}); write it again.") from None
    known = {"contexts", "queries", "labels", "targets"}
    if not {"contexts", "queries"} <= set(tensors) or len({"labels", "targets"} & set(tensors)) != 1:
        raise DataError(
            f"{file} must hold the tensors contexts, queries, and one of labels and targets; it holds "
            f"{', '.join(sorted(tensors)) or 'none'}."
        )
    if set(tensors) - known:
        raise DataError(f"{file} holds the unknown tensor {min(set(tensors) - known)!r}; remove it.")
    return notes, tensors


def _reals(values: npt.ArrayLike, what: str, n_axes: tuple[int, ...], shape: str) -> FloatArray:
    """A private float64 copy; refuses what is not a finite real number, naming the example."""
    try:
        raw = np.asarray(values)
        if raw.dtype.kind not in "fiu":
            raise DataError(f"{what} must hold real numbers, got values of type {raw.dtype}.")
        numbers = np.array(raw, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise DataError(f"{what} must be a rectangular array of numbers.") from None
    if numbers.ndim not in n_axes:
        raise DataError(f"{what} must have shape {shape}, got {numbers.ndim} axes: {numbers.shape}.")
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        owner = "shared context" if what == "contexts" and numbers.ndim == 2 else f"example {at[0] + 1}"
        raise DataError(
            f"{what} must be finite, but {owner} holds {numbers[at]} at index {list(at)}, {int(wrong.sum())} such "
            "numbers in all; replace or drop them."
        )
    return numbers


def _labels(values: npt.ArrayLike, n_classes: int) -> IntArray:
    if isinstance(n_classes, bool) or not isinstance(n_classes, int) or n_classes < 1:
        raise DataError(f"n_classes must be a whole number of at least 1, got {n_classes!r}.")
    raw = np.asarray(values)
    if raw.dtype.kind not in "iu" or raw.ndim != 1:
        raise DataError(f"labels must be whole numbers of shape T, got type {raw.dtype} and shape {raw.shape}.")
    labels = np.array(raw, dtype=np.int64)
    wrong = (labels < 0) | (labels >= n_classes)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise DataError(f"labels must lie between 0 and {n_classes - 1}, but example {at + 1} has {labels[at]}.")
    return labels
