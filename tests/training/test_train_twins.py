"""The stacked models against plain per-head modules: same weights, same logits, same gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from plain_twin import PlainLayer, PlainTransformer, plain_model
from rote.config import Architecture
from rote.data import random_facts, random_vectors
from rote.errors import ShapeError, UnknownName
from rote.models.kinds.transformer import Transformer
from rote.training import ModelSpec, TokenStack, VectorStack, initial_weights
from rote.training.forward import token_logits
from rote.training.loop import _losses
from rote.training.pairs import all_pairs, pair_logits, worthwhile
from rote.training.vectors import vector_outputs

REPLICAS = 3

TOKEN_SPECS = [
    ModelSpec("aot", Architecture(4, 6, 6, 2, 9)),
    ModelSpec("aot", Architecture(3, 6, 2, 2, 9)),
    ModelSpec("aot", Architecture(1, 5, 5, 2, 9, d_mlp=12)),
    ModelSpec("aot", Architecture(2, 5, 5, 2, 9, n_layers=3)),
    ModelSpec("aot", Architecture(2, 5, 3, 4, 9, n_layers=2, d_mlp=7)),
    ModelSpec("transformer", Architecture(4, 6, 6, 2, 9)),
    ModelSpec("transformer", Architecture(3, 7, 2, 5, 9)),
    ModelSpec("transformer", Architecture(2, 6, 4, 3, 9, d_mlp=8, gated=True)),
    ModelSpec("transformer", Architecture(2, 6, 4, 3, 9, d_mlp=8)),
    ModelSpec("transformer", Architecture(1, 1, 1, 1, 9)),
    ModelSpec("transformer", Architecture(2, 3, 9, 2, 4)),
    ModelSpec("prenorm", Architecture(3, 6, 2, 4, 9, n_layers=2, d_mlp=10)),
    ModelSpec("prenorm", Architecture(2, 6, 3, 2, 9)),
]


def stacked(spec: ModelSpec) -> dict[str, Tensor]:
    drawn = [initial_weights(spec, np.random.default_rng(seed)) for seed in range(REPLICAS)]
    rng = np.random.default_rng(9)
    # Norms start as ones and zeros; shaken, so that a mistake in them shows.
    return {
        name: torch.from_numpy(np.stack([one[name] for one in drawn]) + 0.1 * rng.standard_normal(1)).requires_grad_()
        for name in spec.shapes
    }


def name_of(spec: ModelSpec) -> str:
    a = spec.arch
    return f"{spec.family}-H{a.n_heads}-d{a.d_model}-h{a.d_head}-S{a.context}-L{a.n_layers}-m{a.d_mlp}"


def compare(spec: ModelSpec, weights: dict[str, Tensor], made: Tensor, scalar: Tensor, twins: list[Tensor]) -> None:
    """Logits (R, k, T) and the gradient of their losses, against the twins' logits (T, k)."""
    for r, twin in enumerate(twins):
        assert torch.allclose(made[r].T, twin, atol=1e-12, rtol=1e-10), f"replica {r}"
    assert torch.isfinite(scalar)


def gradients_agree(
    weights: dict[str, Tensor], grads: tuple[Tensor, ...], models: list[PlainTransformer | PlainLayer]
) -> None:
    for name, grad in zip(weights, grads, strict=True):
        for r, model in enumerate(models):
            parts = [torch.zeros_like(part) if part.grad is None else part.grad for part in model.named()[name]]
            found = torch.stack(parts).reshape(grad[r].shape)
            assert torch.allclose(grad[r], found, atol=1e-12, rtol=1e-9), f"{name}, replica {r}"


@pytest.mark.parametrize("spec", TOKEN_SPECS, ids=name_of)
def test_token_models(spec: ModelSpec) -> None:
    a = spec.arch
    count = min(8, a.vocab**a.context)
    tables = [random_facts(count, a.context, a.vocab, rng=np.random.default_rng(r)) for r in range(REPLICAS)]
    facts = TokenStack.of(tables)
    weights = stacked(spec)
    made = token_logits(spec, weights, facts.contexts)
    losses = _losses(made, facts, 0.0, facts.weights.sum(1).double())
    grads = torch.autograd.grad(losses.sum(), list(weights.values()), materialize_grads=True)
    models = []
    twins = []
    for r, table in enumerate(tables):
        model = plain_model(spec, {name: tensor[r].detach() for name, tensor in weights.items()}).double()
        with torch.no_grad():
            for name, parts in model.named().items():
                whole = weights[name][r].detach()
                split = [whole] if len(parts) == 1 and parts[0].shape == whole.shape else list(whole)
                for part, value in zip(parts, split, strict=True):
                    part.copy_(value)
        logits = model(torch.from_numpy(table.contexts.copy()))[:, -1]
        torch.nn.functional.cross_entropy(logits, torch.from_numpy(table.targets.copy())).backward()  # type: ignore[no-untyped-call]
        models.append(model)
        twins.append(logits.detach())
    compare(spec, weights, made.detach(), losses.sum().detach(), twins)
    gradients_agree(weights, grads, models)


@pytest.mark.parametrize(
    "spec",
    [s for s in TOKEN_SPECS if s.arch.context == 2 and s.arch.n_layers == 1 and s.family != "prenorm"],
    ids=name_of,
)
def test_all_pairs_at_once(spec: ModelSpec) -> None:
    n = spec.arch.vocab
    tables = [random_facts(n * n - 2 - r, 2, n, rng=np.random.default_rng(r)) for r in range(REPLICAS)]
    facts = TokenStack.of(tables)
    assert worthwhile(spec, facts) == (spec.arch.d_mlp == 0)
    pairs = all_pairs(facts, n)
    weights = stacked(spec)
    assert torch.allclose(pair_logits(spec, weights), token_logits(spec, weights, pairs.contexts), atol=1e-12)
    slow = _losses(token_logits(spec, weights, facts.contexts), facts, 0.3, facts.weights.sum(1).double())
    fast = _losses(pair_logits(spec, weights), pairs, 0.3, pairs.weights.sum(1).double())
    assert torch.allclose(slow, fast, atol=1e-12)
    names = list(weights.values())
    for one, two in zip(torch.autograd.grad(slow.sum(), names), torch.autograd.grad(fast.sum(), names), strict=True):
        assert torch.allclose(one, two, atol=1e-12)


@pytest.mark.parametrize("sharing", ["shared", "own", 0.5])
@pytest.mark.parametrize("n_classes", [None, 5])
def test_layers_over_vectors(sharing: float | str, n_classes: int | None) -> None:
    spec = ModelSpec("layer", Architecture(3, 6, 4, 4, n_classes or 2), regression=n_classes is None)
    tables = [
        random_vectors(7, 4, 6, rng=np.random.default_rng(r), sharing=sharing, n_classes=n_classes)  # type: ignore[arg-type]
        for r in range(REPLICAS)
    ]
    data = VectorStack.of(tables)
    assert data.common == {"shared": 4, "own": 0, 0.5: 2}[sharing]
    weights = stacked(spec)
    made = vector_outputs(spec, weights, data)
    losses = _losses(made, data, 0.0, data.weights.sum(1).double())
    grads = torch.autograd.grad(losses.sum(), list(weights.values()))
    models: list[PlainTransformer | PlainLayer] = []
    for r, table in enumerate(tables):
        model = plain_model(spec, {name: tensor[r].detach() for name, tensor in weights.items()}).double()
        with torch.no_grad():
            for name, parts in model.named().items():
                whole = weights[name][r].detach()
                for part, value in zip(parts, [whole] if parts[0].shape == whole.shape else list(whole), strict=True):
                    part.copy_(value)
        # Contexts are stored in float32.
        context = table.contexts if not table.shared else np.broadcast_to(table.contexts, (7, 4, 6))
        rows = np.concatenate([table.queries[:, None], context], axis=1).astype(np.float32).astype(np.float64)
        # The twin's positions are float32 numbers; the stacked ones are float64 here.
        from rote.training.vectors import sinusoids

        model.register_buffer("places", sinusoids(5, 6))
        out = model(torch.from_numpy(rows))[:, 0]
        goal = torch.from_numpy(table.targets.copy())
        if n_classes is None:
            loss = torch.nn.functional.mse_loss(out[:, 0], goal.float().double())
        else:
            loss = torch.nn.functional.cross_entropy(out, goal)
        loss.backward()  # type: ignore[no-untyped-call]
        assert torch.allclose(made[r].T, out, atol=1e-12)
        models.append(model)
    gradients_agree(weights, grads, models)


def test_the_reference_transformer_agrees() -> None:
    """A trained 'transformer' is rote's own model once the scale of the scores is put into W_Q."""
    spec = ModelSpec("transformer", Architecture(3, 6, 4, 3, 9, d_mlp=5, gated=True))
    table = random_facts(20, 3, 9, rng=np.random.default_rng(0))
    weights = stacked(spec)
    mine = token_logits(spec, weights, TokenStack.of([table] * REPLICAS).contexts)
    one = {name.removesuffix(".0"): tensor[1].detach() for name, tensor in weights.items()}
    one["W_Q"] = one["W_Q"] / 2.0
    model = Transformer(spec.arch, one, activation="silu")
    assert torch.allclose(model(torch.from_numpy(table.contexts.copy())), mine[1].T, atol=1e-12)


def test_families_are_checked() -> None:
    arch = Architecture(1, 2, 2, 2, 4)
    with pytest.raises(UnknownName, match="transformer"):
        ModelSpec("transfomer", arch)  # type: ignore[arg-type]
    for family, changes in (("layer", {"n_layers": 2}), ("aot", {"d_mlp": 2, "gated": True})):
        with pytest.raises(ShapeError):
            ModelSpec(family, arch.replace(**changes))  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="real targets"):
        ModelSpec("aot", arch, regression=True)


def test_parameters_are_those_of_the_shape() -> None:
    arch = Architecture(3, 6, 4, 3, 9, d_mlp=5, gated=True)
    assert ModelSpec("transformer", arch).params == arch.params()
    assert ModelSpec("aot", Architecture(16, 10, 10, 2, 50)).params == Architecture(16, 10, 10, 2, 50).params()
