"""Models as ONNX graphs, and what onnxruntime makes of them; here the float transformer of bit extraction: token ids
in, labels out, no rounding on the way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rote.data._atomic import write_atomically
from rote.errors import CapacityError, MissingExtra
from rote.models.kinds._relu_transformer import dense_weights

if TYPE_CHECKING:
    from rote.solvers.exact.network import Network
    from rote.solvers.exact.transformer import ExactTransformer

__all__ = [
    "Graph",
    "onnx_bytes",
    "onnx_labels",
    "onnx_outputs",
    "onnx_session",
    "onnx_tools",
    "onnx_written",
    "serialised",
]

Values = Mapping[str, tuple[int, list[Any]]]
"""Tensors that go in or come out, by name: the type of their numbers, and their shape."""
_MOST_WEIGHTS = 60_000_000
_OPSET = 17
_IR = 9


def onnx_tools() -> Any:
    try:
        import onnx
    except ImportError:
        raise MissingExtra("onnx", "onnx", "an ONNX file") from None
    return onnx


class Graph:
    """Nodes and constants, each output with a name of its own."""

    def __init__(self) -> None:
        self.onnx = onnx_tools()
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def output(self, name: str, kind: str, *inputs: str, **attributes: Any) -> None:
        """A node whose output has this name."""
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))


def _chain(graph: Graph, x: str, network: Network, dtype: torch.dtype) -> str:
    for layer in network.layers:
        W, b = dense_weights(layer, dtype)
        x = graph.node("Add", graph.node("MatMul", x, graph.constant(W.T.numpy())), graph.constant(b.numpy()))
        if layer.relu:
            x = graph.node("Relu", x)
    return x


def onnx_bytes(model: ExactTransformer) -> bytes:
    """The file's content; input `contexts` (batch, S) int64, output `labels` (batch,) or (batch, S)."""
    onnx = onnx_tools()
    size = model.first.dense_params + model.second.dense_params
    if size > _MOST_WEIGHTS:
        raise CapacityError(
            f"ONNX has no sparse matrices, and this network has {size:,} weights with its zeros, more than "
            f"{_MOST_WEIGHTS:,}; export a smaller one."
        )
    dtype = getattr(torch, model.precision)
    number, kind = (np.float64, onnx.TensorProto.DOUBLE) if model.precision == "float64" else (
        np.float32, onnx.TensorProto.FLOAT)  # fmt: skip
    graph = Graph()
    rows = "contexts"
    if model.padding:
        before = graph.constant(np.array([0, model.padding, 0, 0], dtype=np.int64))
        rows = graph.node("Pad", rows, before, graph.constant(np.array(model.vocab, dtype=np.int64)))
    axis = graph.constant(np.array([2], dtype=np.int64))
    stream = graph.node("Unsqueeze", graph.node("Cast", rows, to=kind), axis)
    if model.with_positions:
        places = np.arange(model.positions_seen, dtype=number).reshape(1, -1, 1)
        zero = graph.node("Mul", stream, graph.constant(np.array(0, dtype=number)))
        stream = graph.node("Concat", stream, graph.node("Add", zero, graph.constant(places)), axis=2)
    numbers = _chain(graph, stream, model.first, dtype)
    ends = [graph.constant(np.array([k], dtype=np.int64)) for k in (0, 1, 2)]
    value = graph.node("Slice", numbers, ends[0], ends[1], ends[2])
    W = {name: graph.constant(np.array([[w]], dtype=number)) for name, w in _attention(model).items()}
    scores = graph.node(
        "MatMul",
        graph.node("MatMul", value, W["W_Q"]),
        graph.node("Transpose", graph.node("MatMul", value, W["W_K"]), perm=[0, 2, 1]),
    )
    mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=2), graph.node("MatMul", value, W["W_V"]))
    mean = graph.node("MatMul", mixed, W["W_O"])
    if model.task == "seq2seq":
        token = graph.node("Slice", numbers, ends[1], ends[2], ends[2])
        mean = graph.node("Concat", mean, token, axis=2)
        first = model.padding
    else:
        first = model.positions_seen - 1
    start, stop = (graph.constant(np.array([k], dtype=np.int64)) for k in (first, model.positions_seen))
    out = _chain(graph, graph.node("Slice", mean, start, stop, ends[1]), model.second, dtype)
    shape = [0, -1] if model.task == "seq2seq" else [-1]
    graph.output("labels", "Reshape", out, graph.constant(np.array(shape, dtype=np.int64)))
    sizes = ["batch", model.context] if model.task == "seq2seq" else ["batch"]
    contexts = (onnx.TensorProto.INT64, ["batch", model.context])
    return serialised(graph, {"contexts": contexts}, {"labels": (kind, sizes)})


def _attention(model: ExactTransformer) -> dict[str, int]:
    return {"W_Q": 0, "W_K": 0, "W_V": model.attention[0], "W_O": model.attention[1]}


def serialised(graph: Graph, inputs: Values, outputs: Values) -> bytes:
    """A checked file: every input and every output with its type and shape."""
    onnx = graph.onnx
    helper = onnx.helper
    given, said = (
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in values.items()]
        for values in (inputs, outputs)
    )
    made = helper.make_graph(graph.nodes, "rote", given, said, graph.constants)
    whole = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR, producer_name="rote"
    )
    onnx.checker.check_model(whole)
    return bytes(whole.SerializeToString())


def onnx_labels(content: bytes, contexts: Any, chunk: int = 1024) -> Any:
    """The labels that onnxruntime finds by the file, on the CPU."""
    return onnx_outputs(content, contexts, ("labels",), chunk)["labels"]


def onnx_outputs(content: bytes, contexts: Any, names: tuple[str, ...], chunk: int) -> dict[str, Any]:
    """Some outputs of the file, so many contexts at a time."""
    session = onnx_session(content)
    parts = [
        session.run(list(names), {"contexts": np.ascontiguousarray(contexts[at : at + chunk])})
        for at in range(0, len(contexts), chunk)
    ]
    return {name: np.concatenate(column) for name, column in zip(names, zip(*parts, strict=True), strict=True)}


def onnx_session(content: bytes) -> Any:
    """The file in onnxruntime, on the CPU."""
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtra("onnxruntime", "onnx", "checking an ONNX file") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def onnx_written(path: Path, content: bytes, count: int, lost: int, dtype: str) -> dict[str, Any]:
    """Write the file unless facts are lost; what was found, plain."""
    if not lost:
        write_atomically(path, lambda part: part.write_bytes(content))
    return {
        "onnx": path.name,
        "bytes": len(content),
        "dtype": dtype,
        "n_facts": count,
        "n_failed": lost,
        "recall": (count - lost) / count,
    }
