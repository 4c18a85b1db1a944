"""Models and referee against a plain NumPy forward pass, one example and one head at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from rote.config import Architecture
from rote.errors import CheckpointError, ShapeError
from rote.models.attention_layer import AttentionLayer
from rote.models.transformer import Activation, Transformer
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
    if qk_rank is None:
        assert model.n_stored == arch.params("full")
    elif arch.d_mlp == 0:
        assert model.n_stored == arch.params("rank1_qk")


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
    one, two = torch.from_numpy(contexts), torch.from_numpy(queries)
    np.testing.assert_allclose(layer(one, two).numpy(), wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(layer_outputs(tensors, one, two, torch.float64).numpy(), wanted, rtol=1e-9, atol=1e-9)
    with pytest.raises(ShapeError, match="queries"):
        layer(one, two[:, :3])


def test_wrong_weights_are_refused_by_name() -> None:
    arch = Architecture(2, 4, 2, 3, 5)
    good = {name: torch.zeros(shape) for name, shape in Transformer.shapes(arch).items()}
    with pytest.raises(CheckpointError, match="W_O"):
        Transformer(arch, {k: v for k, v in good.items() if k != "W_O"})
    with pytest.raises(CheckpointError, match="W_V has shape"):
        Transformer(arch, {**good, "W_V": torch.zeros(2, 3, 4)})
    with pytest.raises(CheckpointError, match="'extra'"):
        Transformer(arch, {**good, "extra": torch.zeros(1)})
    with pytest.raises(ShapeError, match="3 tokens"):
        Transformer(arch, good)(torch.zeros(2, 4, dtype=torch.int64))
