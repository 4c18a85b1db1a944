"""Models for other programs: ONNX, written only after onnxruntime has recalled every fact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rote.data import FactTable, SequenceTable, VectorTable
from rote.data._atomic import write_atomically
from rote.errors import CheckpointError, UsageError
from rote.memory import Memory

__all__ = ["export_onnx"]


def export_onnx(memory: Memory, facts: FactTable | VectorTable | SequenceTable, path: Path) -> dict[str, Any]:
    """Write the model of floats as ONNX if onnxruntime gives every fact its label; the findings in plain values."""
    import numpy as np

    from rote.models.onnx_export import onnx_bytes, onnx_labels
    from rote.models.relu_transformer import ReluTransformer
    from rote.referee.labels import label_numbers

    model = memory.model
    if memory.certificate.get("data") == "vectors":
        raise UsageError("networks for vectors are exact, so they cannot be exported as ONNX; only token models can.")
    if not isinstance(model, ReluTransformer):
        raise UsageError(
            "only bit-extraction models of floats are exported as ONNX; build one with "
            "--with kajitsuka2025_next_token --precision float64."
        )
    if isinstance(facts, VectorTable) or facts.sha256 != memory.certificate.get("facts_sha256"):
        raise CheckpointError("these are not the facts that the model was built from; give the original ones.")
    content = onnx_bytes(model.exact)
    wanted = label_numbers(facts.targets, model.exact.labels)
    got = onnx_labels(content, facts.contexts)
    lost = int((got != wanted).reshape(len(wanted), -1).any(axis=1).sum())
    if not lost:
        write_atomically(path, lambda part: _write(part, content))
    return {
        "onnx": path.name,
        "bytes": len(content),
        "dtype": model.exact.precision,
        "n_facts": len(wanted),
        "n_failed": lost,
        "recall": float(np.float64(len(wanted) - lost) / len(wanted)),
    }


def _write(part: Path, content: bytes) -> None:
    part.write_bytes(content)
