"""Models of floats as ONNX graphs: the reference transformer, the attention layer over vectors, and stock checkpoints.

Numbers are float64 for weights of this format and float32 otherwise: both hold shorter formats exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rote.models._onnx import Graph, onnx_session, onnx_tools, onnx_written, serialised
from rote.referee.outputs import Scores

if TYPE_CHECKING:
    from rote.data.outputs import Outputs
    from rote.data.table import Table
    from rote.models.kinds.attention_layer import AttentionLayer
    from rote.models.kinds.transformer import Transformer

__all__ = ["layer_onnx", "llama_onnx", "onnx_export", "transformer_onnx"]

_ROWS = 512


class _Floats(Graph):
    """A graph with weights of one number format."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.double = any(tensor.dtype == torch.float64 for tensor in weights.values())
        self.dtype = np.float64 if self.double else np.float32
        proto = onnx_tools().TensorProto
        self.kind, self.integer = (proto.DOUBLE if self.double else proto.FLOAT), proto.INT64

    def weights(self, tensor: Tensor) -> str:
        return self.constant(tensor.detach().to(torch.float64 if self.double else torch.float32).numpy())

    def number(self, value: float) -> str:
        return self.constant(np.array(value, dtype=self.dtype))

    def whole(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def attended(self, query: str, rows: str, W: Mapping[str, Tensor]) -> str:
        """What all heads add, (batch, k): queries (batch, d) look at rows (batch, n, d); W_Q to W_O by head."""
        asked = self.node("MatMul", self.node("Unsqueeze", query, self.whole(1, 2)), self.weights(W["W_Q"].mT))
        probe = self.node("MatMul", asked, self.weights(W["W_K"]))
        seen = self.node("Unsqueeze", rows, self.whole(1))
        agreement = self.node("MatMul", probe, self.node("Transpose", seen, perm=[0, 1, 3, 2]))
        mixed = self.node("MatMul", self.node("Softmax", agreement, axis=3), seen)
        values = self.node("MatMul", mixed, self.weights(W["W_V"].mT))
        added = self.node("MatMul", values, self.weights(W["W_O"].mT))
        return self.node("ReduceSum", added, self.whole(1, 2), keepdims=0)

    def tokens(self, scores: str, width: int, inputs: Mapping[str, tuple[int, list[Any]]]) -> bytes:
        """Finish with `scores` (batch, width), and `tokens`, the place of the largest."""
        self.output("scores", "Identity", scores)
        self.output("tokens", "ArgMax", "scores", axis=1, keepdims=0)
        columns: list[Any] = ["batch", width]
        outputs = {"scores": (self.kind, columns), "tokens": (self.integer, columns[:1])}
        return serialised(self, inputs, outputs)


def transformer_onnx(module: Transformer) -> bytes:
    """The reference transformer: `contexts` (batch, S) of token ids in, `scores` and `tokens` out."""
    W, arch = dict(module.state_dict()), module.arch
    graph = _Floats(W)
    rows = graph.weights(W["W_E"])
    x = graph.node("Add", graph.node("Gather", rows, "contexts"), graph.weights(W["W_pos"]))
    last = graph.node("Gather", x, graph.constant(np.array(arch.context - 1)), axis=1)
    y = graph.node("Add", last, graph.attended(last, x, W))
    if arch.d_mlp:
        gate = graph.node("MatMul", y, graph.weights(W["W_gate"].T))
        if module.activation == "silu":
            gate = graph.node("Mul", gate, graph.node("Sigmoid", gate))
        inner = graph.node("Mul", gate, graph.node("MatMul", y, graph.weights(W["W_up"].T)))
        y = graph.node("Add", y, graph.node("MatMul", inner, graph.weights(W["W_down"].T)))
    readout = graph.node("Transpose", rows, perm=[1, 0]) if arch.own_rows == 0 else graph.weights(module.readout.T)
    scores = graph.node("MatMul", y, readout)
    return graph.tokens(scores, arch.vocab, {"contexts": (graph.integer, ["batch", arch.context])})


def layer_onnx(module: AttentionLayer) -> bytes:
    """The attention layer: `contexts` (batch, n, d) and `queries` (batch, d) in; `scores`, what it says, out."""
    W, arch = dict(module.state_dict()), module.arch
    graph = _Floats(W)
    inputs = {
        "contexts": (graph.kind, ["batch", "n", arch.d_model]),
        "queries": (graph.kind, ["batch", arch.d_model]),
    }
    return graph.tokens(graph.attended("queries", "contexts", W), int(W["W_O"].shape[1]), inputs)


def llama_onnx(stock: Any) -> bytes:
    """A stock Llama, Mistral or Arcee: `contexts` (batch, length) without padding in, the last `scores` out."""
    config, W = (
        stock.config,
        {name: tensor for name, tensor in stock.state_dict().items() if tensor.is_floating_point()},
    )
    graph, heads, few, head = _Floats(W), config.num_attention_heads, config.num_key_value_heads, config.head_dim
    length = config.max_position_embeddings
    with torch.no_grad():
        turns = stock.model.rotary_emb(torch.zeros(1, dtype=torch.float64), torch.arange(length)[None])
    size = graph.node("Slice", graph.node("Shape", "contexts"), graph.whole(1), graph.whole(2))

    def upto(table: str, axis: int) -> str:
        return graph.node("Slice", table, graph.whole(0), size, graph.whole(axis))

    cosine, sine = (upto(graph.weights(one[0]), 0) for one in turns)
    later = graph.constant(np.triu(np.full((length, length), -np.inf, dtype=graph.dtype), 1))
    hidden_from = upto(upto(later, 0), 1)

    def product(x: str, name: str) -> str:
        made = graph.node("MatMul", x, graph.weights(W[f"{name}.weight"].T))
        return graph.node("Add", made, graph.weights(W[f"{name}.bias"])) if f"{name}.bias" in W else made

    def normed(x: str, name: str) -> str:
        mean = graph.node("ReduceMean", graph.node("Mul", x, x), axes=[-1])
        root = graph.node("Sqrt", graph.node("Add", mean, graph.number(config.rms_norm_eps)))
        return graph.node("Mul", graph.node("Div", x, root), graph.weights(W[f"{name}.weight"]))

    def split(x: str, count: int) -> str:
        return graph.node("Transpose", graph.node("Reshape", x, graph.whole(0, 0, count, head)), perm=[0, 2, 1, 3])

    def turned(x: str) -> str:
        middle, end, axis = graph.whole(head // 2), graph.whole(head), graph.whole(3)
        first, second = graph.node("Slice", x, graph.whole(0), middle, axis), graph.node("Slice", x, middle, end, axis)
        half = graph.node("Concat", graph.node("Neg", second), first, axis=3)
        return graph.node("Add", graph.node("Mul", x, cosine), graph.node("Mul", half, sine))

    def spread(x: str) -> str:
        """Every key-value head once for each of its query heads."""
        if heads == few:
            return x
        return graph.node("Gather", x, graph.whole(*(i // (heads // few) for i in range(heads))), axis=1)

    x = graph.node("Gather", graph.weights(W["model.embed_tokens.weight"]), "contexts")
    for number in range(config.num_hidden_layers):
        at = f"model.layers.{number}"
        inner = normed(x, f"{at}.input_layernorm")
        q = turned(split(product(inner, f"{at}.self_attn.q_proj"), heads))
        k = spread(turned(split(product(inner, f"{at}.self_attn.k_proj"), few)))
        v = spread(split(product(inner, f"{at}.self_attn.v_proj"), few))
        agreement = graph.node("MatMul", q, graph.node("Transpose", k, perm=[0, 1, 3, 2]))
        agreement = graph.node("Add", graph.node("Mul", agreement, graph.number(head**-0.5)), hidden_from)
        mixed = graph.node("MatMul", graph.node("Softmax", agreement, axis=3), v)
        rows = graph.node("Reshape", graph.node("Transpose", mixed, perm=[0, 2, 1, 3]), graph.whole(0, 0, heads * head))
        x = graph.node("Add", x, product(rows, f"{at}.self_attn.o_proj"))
        inner = normed(x, f"{at}.post_attention_layernorm")
        raised = product(inner, f"{at}.mlp.up_proj")
        if f"{at}.mlp.gate_proj.weight" in W:
            gate = product(inner, f"{at}.mlp.gate_proj")
            raised = graph.node("Mul", graph.node("Mul", gate, graph.node("Sigmoid", gate)), raised)
        else:  # Arcee: a ReLU, or its square, and no gate
            raised = graph.node("Relu", raised)
            raised = graph.node("Mul", raised, raised) if config.hidden_act == "relu2" else raised
        x = graph.node("Add", x, product(raised, f"{at}.mlp.down_proj"))
    last = graph.node("Gather", normed(x, "model.norm"), graph.constant(np.array(-1)), axis=1)
    return graph.tokens(product(last, "lm_head"), config.vocab_size, {"contexts": (graph.integer, ["batch", "length"])})


def onnx_export(
    path: Path,
    content: bytes,
    table: Table,
    own: Outputs,
    wrap: Callable[[Callable[..., Tensor]], Callable[..., Tensor]] = lambda run: run,
) -> dict[str, Any]:
    """Write a graph if onnxruntime loses no fact that the model's `own` forward pass keeps; what was found, plain.

    `wrap` makes of a function of the graph's inputs one of what the table gives.
    """
    session = onnx_session(content)
    kinds = {one.name: np.float64 if "double" in one.type else np.float32 for one in session.get_inputs()}
    number = "float64" if "double" in session.get_outputs()[0].type else "float32"

    def run(*given: Tensor) -> Tensor:
        wide = len(given) > 1
        arrays = [
            one.numpy().astype(kinds[name]) if wide else one.numpy() for name, one in zip(kinds, given, strict=True)
        ]
        if wide and arrays[0].ndim == 2:
            # One context for all examples.
            arrays[0] = np.broadcast_to(arrays[0], (len(arrays[1]), *arrays[0].shape))
        feed = {name: np.ascontiguousarray(array) for name, array in zip(kinds, arrays, strict=True)}
        return torch.from_numpy(session.run(["scores"], feed)[0])

    takes = own.takes if own.takes in ("tokens", "vectors") else "anything"
    verdict = table.score(Scores(wrap(run), takes=takes, rows_at_once=_ROWS), number)  # type: ignore[arg-type]
    kept = table.score(own, number)
    lost = 0 if verdict.passed and verdict.n_failed <= kept.n_failed else max(1, verdict.n_failed)
    return onnx_written(path, content, table.n_facts, lost, number)
