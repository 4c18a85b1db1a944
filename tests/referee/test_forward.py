"""Models and referee against a plain NumPy forward pass, one example and one head at a time."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch

from rote.config import Architecture
from rote.errors import ShapeError
from rote.models.kinds.attention_layer import AttentionLayer
from rote.models.kinds.transformer import Activation, Transformer
from rote.referee.forward import layer_outputs, rows_at_once, token_logits

Array = npt.NDArray[np.float64]


def softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max())
    share: Array = weights / weights.sum()
    return share


def plain_logits(w: dict[str, Array], tokens: npt.NDArray[np.int64], activation: str) -> Array:
    x = np.stack([w["W_E"][t] + w["W_pos"][s] for s, t in enumerate(tokens)])
    y = x[-1].copy()
    for h in range(len(w["W_Q"])):
        scores = np.array([float((w["W_Q"][h] @ x[-1]) @ (w["W_K"][h] @ row)) for row in x])
        y = y + w["W_O"][h] @ (w["W_V"][h] @ (softmax(scores) @ x))
    if "W_gate" in w:
        gate = w["W_gate"] @ y
        gate = gate / (1 + np.exp(-gate)) if activation == "silu" else gate
        y = y + w["W_down"] @ (gate * (w["W_up"] @ y))
    logits: Array = w["W_U"] @ y
    return logits


def one(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64).reshape(1, 1, -1)


def test_a_transformer_by_hand() -> None:
    """The stream is (1, 2). Scores are 2 ln 2 (1, 2), so weights are 1/5 and 4/5, and the head sees 1.8."""
    w = {
        "W_E": torch.tensor([[1.0], [2.0]], dtype=torch.float64),
        "W_pos": torch.zeros(2, 1, dtype=torch.float64),
        "W_Q": one(1.0),
        "W_K": one(math.log(2)),
        "W_V": one(5.0),
        "W_O": one(1.0),
        "W_U": torch.tensor([[1.0], [-1.0]], dtype=torch.float64),
    }
    contexts = torch.tensor([[0, 1]])
    logits = token_logits(w, contexts, torch.float64, "identity")
    torch.testing.assert_close(logits, torch.tensor([[11.0, -11.0]], dtype=torch.float64))
    mlp = {name: torch.ones(1, 1, dtype=torch.float64) for name in ("W_gate", "W_up", "W_down")}
    gated = token_logits({**w, **mlp}, contexts, torch.float64, "identity")
    torch.testing.assert_close(gated, torch.tensor([[132.0, -132.0]], dtype=torch.float64))
    silu = token_logits({**w, **mlp}, contexts, torch.float64, "silu")
    assert float(silu[0, 0]) == pytest.approx(11 + 121 / (1 + math.exp(-11)))


def test_an_attention_layer_by_hand() -> None:
    """Scores are 0 and ln 3, so weights are 1/4 and 3/4."""
    w = {"W_Q": one(1.0), "W_K": one(1.0), "W_V": one(4.0), "W_O": one(1.0, -1.0).reshape(1, 2, 1)}
    shared, query = torch.tensor([[0.0], [1.0]]), torch.tensor([[math.log(3)]], dtype=torch.float64)
    for contexts in (shared, shared[None]):
        outputs = layer_outputs(w, contexts, query, torch.float64)
        torch.testing.assert_close(outputs, torch.tensor([[3.0, -3.0]], dtype=torch.float64))


SHAPES = [
    (Architecture(3, 5, 2, 4, 7), None, "identity"),
    (Architecture(2, 4, 4, 1, 3), 1, "identity"),
    (Architecture(1, 6, 3, 6, 5, d_mlp=9, gated=True), None, "silu"),
    (Architecture(4, 3, 3, 2, 9, d_mlp=2, gated=True), 1, "identity"),
]


@pytest.mark.parametrize(("arch", "qk_rank", "activation"), SHAPES)
def test_model_and_referee_agree_with_the_definition(
    arch: Architecture, qk_rank: int | None, activation: Activation
) -> None:
    rng = np.random.default_rng(0)
    shapes = Transformer.shapes(arch, qk_rank=qk_rank)
    weights = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    tensors = {name: torch.from_numpy(value) for name, value in weights.items()}
    contexts = rng.integers(0, arch.vocab, size=(11, arch.context))
    wanted = np.stack([plain_logits(weights, row, activation) for row in contexts])
    model = Transformer(arch, tensors, activation=activation)
    np.testing.assert_allclose(model(torch.from_numpy(contexts)).numpy(), wanted, rtol=1e-9, atol=1e-9)
    judged = token_logits(tensors, torch.from_numpy(contexts), torch.float64, activation)
    np.testing.assert_allclose(judged.numpy(), wanted, rtol=1e-9, atol=1e-9)
    assert rows_at_once(tensors, arch.context) >= 1
    stored = sum(p.numel() for p in model.parameters())
    if qk_rank is None:
        assert stored == arch.params("full")
    elif arch.d_mlp == 0:
        assert stored == arch.params("rank1_qk")


@pytest.mark.parametrize("shared", [True, False])
def test_attention_layer_agrees_with_the_definition(shared: bool) -> None:
    rng = np.random.default_rng(1)
    h, d, d_head, n, d_v, k, count = 3, 5, 2, 4, 2, 3, 7
    w = {
        "W_Q": rng.normal(size=(h, d_head, d)),
        "W_K": rng.normal(size=(h, d_head, d)),
        "W_V": rng.normal(size=(h, d_v, d)),
        "W_O": rng.normal(size=(h, k, d_v)),
    }
    contexts = rng.normal(size=(n, d) if shared else (count, n, d))
    queries = rng.normal(size=(count, d))
    wanted = np.zeros((count, k))
    for i in range(count):
        rows = contexts if shared else contexts[i]
        for j in range(h):
            weights = softmax(rows @ w["W_K"][j].T @ (w["W_Q"][j] @ queries[i]))
            wanted[i] += w["W_O"][j] @ (w["W_V"][j] @ (weights @ rows))
    tensors = {name: torch.from_numpy(value) for name, value in w.items()}
    layer = AttentionLayer(Architecture(h, d, d_head, n, 2), tensors)
    given = torch.from_numpy(contexts), torch.from_numpy(queries)
    np.testing.assert_allclose(layer(*given).numpy(), wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(layer_outputs(tensors, *given, torch.float64).numpy(), wanted, rtol=1e-9, atol=1e-9)
    with pytest.raises(ShapeError, match="queries"):
        layer(given[0], given[1][:, :3])
