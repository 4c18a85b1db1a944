"""Recall of an exact transformer: by exact arithmetic, or in the floats that it was made for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rote.config import DTYPES
from rote.data import FactTable, SequenceTable, VectorTable
from rote.errors import UnknownName, UsageError
from rote.referee.exact_transformer import token_outputs, vector_outputs
from rote.referee.labels import label_numbers, score_labels
from rote.referee.relu_forward import FLOATS, relu_outputs
from rote.solvers.exact.grouped import grouped_labels

if TYPE_CHECKING:
    from rote.referee import Verification
    from rote.solvers.exact.transformer import ExactTransformer

__all__ = ["verify_exact"]


def verify_exact(
    model: ExactTransformer, module: object, facts: FactTable | VectorTable | SequenceTable, dtype: str
) -> Verification:
    """Run every fact. In floats both the module's own forward pass and the referee's must give the label."""
    if dtype not in ("exact", *FLOATS):
        if dtype in DTYPES:
            raise UsageError(f"bit extraction has no use for {dtype}, which rounds its weights; use exact or float64.")
        raise UnknownName("number format", dtype, ["exact", *FLOATS])
    _check_kind(model, facts)
    evaluator = None
    got: Any
    if isinstance(facts, VectorTable):
        wanted = facts.targets.astype(np.int64)
        if dtype != "exact":
            raise UsageError("a network for vectors is exact; leave out --dtype, or say exact.")
        found = vector_outputs(model, facts.sequences(), fast=grouped_labels)
        got, evaluator = found.labels, found.evaluator
        return score_labels(
            wanted, got, dtype, evaluator=evaluator,
            context_text=lambda row: f"example {row + 1}", label_text=lambda label: f"{label:g}",
        )  # fmt: skip
    wanted = label_numbers(facts.targets, model.labels)
    if dtype == "exact":
        found = token_outputs(model, facts.contexts, fast=grouped_labels)
        got, evaluator = found.labels, found.evaluator
    else:
        got = _worse(relu_outputs(model, facts.contexts, dtype), _module_outputs(module, facts.contexts, dtype), wanted)
    word = facts.vocabulary.token

    def label_text(label: float) -> str:
        at = int(label) if np.isfinite(label) and label == int(label) else -1
        return word(model.labels[at]) if 0 <= at < len(model.labels) else f"no label ({label:g})"

    return score_labels(
        wanted,
        got,
        dtype,
        evaluator=evaluator,
        context_text=lambda row: " ".join(word(int(t)) for t in facts.contexts[row]),
        label_text=label_text,
    )


def _check_kind(model: ExactTransformer, facts: FactTable | VectorTable | SequenceTable) -> None:
    if isinstance(facts, VectorTable) != bool(model.d_in):
        raise UsageError(
            "this model reads vectors; give it a .safetensors file of queries and contexts."
            if model.d_in
            else "this model reads tokens; give it a facts file, not vectors."
        )
    if (
        model.d_in
        and isinstance(facts, VectorTable)
        and (facts.d_model, facts.context + 1) != (model.d_in, model.context)
    ):
        raise UsageError(
            f"this model reads {model.context - 1} context vectors of width {model.d_in}; these are "
            f"{facts.context} of width {facts.d_model}."
        )
    if isinstance(facts, SequenceTable) != (model.task == "seq2seq"):
        raise UsageError(
            "this model labels every position; give it facts whose target is a sequence."
            if model.task == "seq2seq"
            else "this model gives one label a sequence; give it facts with one target."
        )
    if not isinstance(facts, VectorTable) and facts.context != model.context:
        raise UsageError(f"this model reads contexts of {model.context} tokens, these facts have {facts.context}.")


def _module_outputs(module: object, contexts: Any, dtype: str) -> Any:
    """The forward pass of the torch module, in chunks; nothing for a model that has none, or for another format."""
    import torch

    from rote.models.relu_transformer import ReluTransformer

    if not isinstance(module, ReluTransformer) or module.exact.precision != dtype:
        return None
    rows = max(1, 8_000_000 // (module.exact.width * module.exact.positions_seen))
    with torch.no_grad():
        parts = [module(torch.from_numpy(contexts[at : at + rows].copy())) for at in range(0, len(contexts), rows)]
    return torch.cat(parts).to(torch.float64).numpy()


def _worse(one: Any, other: Any, wanted: Any) -> Any:
    """Of two outputs the one further from what is wanted."""
    if other is None:
        return one
    return np.where(np.abs(other - wanted) > np.abs(one - wanted), other, one)
