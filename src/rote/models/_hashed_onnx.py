"""A hashed table as an ONNX graph: heads that copy tokens, then a chain of matrix products and ReLUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rote.errors import CapacityError
from rote.models._onnx import Graph, onnx_outputs, onnx_tools, serialised

if TYPE_CHECKING:
    from torch import Tensor

    from rote.models.kinds.hashed_transformer import HashedTransformer

__all__ = ["hashed_labels", "hashed_onnx"]

_MOST_BYTES = 2_000_000_000
"""An ONNX file of one piece is shorter than 2 GiB."""
_NUMBERS_AT_ONCE = 12_000_000


def hashed_onnx(module: HashedTransformer) -> bytes:
    """The file's content. From `contexts` (batch, S) of token ids it makes

    scores   (batch, C) of the classes, one more for "unknown" where fingerprints are stored
    labels   (batch,) the class, which stands for that entry of `labels` in config.json; -1 where it is unknown
    unknown  (batch,) whether the context is told as none of the facts

    or, for a module that labels every position, scores (batch, S, C) and labels and unknown (batch, S).
    Numbers are float64 for weights of this format and float32 otherwise: both hold shorter formats exactly.
    """
    onnx = onnx_tools()
    double = module.W_E.dtype == torch.float64
    number, kind = (np.float64, onnx.TensorProto.DOUBLE) if double else (np.float32, onnx.TensorProto.FLOAT)
    size = sum(p.numel() for p in module.parameters()) * np.dtype(number).itemsize
    if size > _MOST_BYTES:
        raise CapacityError(f"an ONNX file holds less than 2 GB, and these weights are {size:,} bytes; export fewer.")
    graph, arch, classes = Graph(), module.arch, len(module.words.labels)

    def weights(tensor: Tensor) -> str:
        return graph.constant(tensor.detach().to(torch.float64 if double else torch.float32).numpy())

    def whole(*values: int) -> str:
        return graph.constant(np.array(values, dtype=np.int64))

    heads, length, width = arch.n_heads, arch.context, arch.d_head
    rows = graph.node("Gather", graph.constant(module.rows.numpy()), "contexts")
    x = graph.node("Add", graph.node("Gather", weights(module.W_E), rows), weights(module.W_pos))
    asked = length if module.every_position else 1
    asking = graph.node("Slice", x, whole(length - asked), whole(length), whole(1))
    marks = len(module.W_Q) // heads
    asked_for = graph.node(
        "Reshape", graph.node("MatMul", asking, weights(module.W_Q.T)), whole(0, asked, heads, marks)
    )
    queries = graph.node("Transpose", asked_for, perm=[0, 2, 1, 3])
    keys = graph.node("Reshape", graph.node("MatMul", x, weights(module.W_K.T)), whole(0, length, heads, marks))
    agreement = graph.node("MatMul", queries, graph.node("Transpose", keys, perm=[0, 2, 3, 1]))
    attention = graph.node("Softmax", agreement, axis=3)
    mixed = graph.node("MatMul", attention, graph.node("Unsqueeze", x, whole(1)))
    values = graph.node("MatMul", mixed, weights(module.W_V.reshape(heads, width, -1).transpose(1, 2)))
    shape = (0, asked, heads * width) if module.every_position else (0, heads * width)
    stream = graph.node("Reshape", graph.node("Transpose", values, perm=[0, 2, 1, 3]), whole(*shape))
    # The constant 1 beside what the heads hand over.
    beside = (*(0 for _ in shape), *(0 for _ in shape[1:]), 1)
    stream = graph.node("Pad", stream, whole(*beside), graph.constant(np.array(1, dtype=number)))
    matrices = [weights(layer.get_parameter("weight").T) for layer in module.layers]
    for matrix in matrices[:-1]:
        stream = graph.node("Relu", graph.node("MatMul", stream, matrix))
    graph.output("scores", "MatMul", stream, matrices[-1])
    best = graph.node("ArgMax", "scores", axis=-1, keepdims=0)
    coded = graph.node("Gather", graph.constant(module.coded.numpy()), "contexts")
    known = graph.node(
        "ReduceMin", graph.node("Cast", coded, to=onnx.TensorProto.INT32), axes=[1], keepdims=int(module.every_position)
    )
    foreign = graph.node("Not", graph.node("Cast", known, to=onnx.TensorProto.BOOL))
    graph.output("unknown", "Or", foreign, graph.node("GreaterOrEqual", best, whole(classes)))
    graph.output("labels", "Where", "unknown", whole(-1), best)
    places: list[Any] = ["batch", asked] if module.every_position else ["batch"]
    columns = [*places, classes + (module.words.unknown > 0)]
    integer, truth = onnx.TensorProto.INT64, onnx.TensorProto.BOOL
    outputs = {"scores": (kind, columns), "labels": (integer, places), "unknown": (truth, places)}
    return serialised(graph, {"contexts": (integer, ["batch", length])}, outputs)


def hashed_labels(content: bytes, module: HashedTransformer, contexts: Any) -> Any:
    """The labels that onnxruntime finds by the file; -1 for contexts that it tells as unknown."""
    widest = max(len(layer.get_parameter("weight")) for layer in module.layers)
    heads, length, d = module.arch.n_heads, module.arch.context, module.arch.d_model
    beside = length * (2 * d + 2 * len(module.W_K) + heads) + heads * d
    asked = length if module.every_position else 1
    chunk = max(1, min(8192, _NUMBERS_AT_ONCE // (asked * 2 * widest + beside)))
    return onnx_outputs(content, contexts, ("labels",), chunk)["labels"]
