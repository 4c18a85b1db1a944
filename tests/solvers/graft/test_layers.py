"""More facts than one added layer holds: what one leaves is taken by the next, and nothing that was right is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from rote.solvers.graft.fit import Layer, Problem, fit_layers
from rote.solvers.graft.gate import choose_gate, singling_out

WIDTH, D, N_TEXT = 128, 64, 3000


def small_model() -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=200,
            hidden_size=D,
            intermediate_size=WIDTH,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            initializer_range=0.5,
        )
        return transformers.AutoModelForCausalLM.from_config(config)


def states(n_facts: int, far: float, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Facts around `far` times a mean, their targets, and text around the opposite."""
    draw = torch.Generator().manual_seed(seed)
    mean = torch.randn(D, generator=draw)
    facts = far * mean + torch.randn(n_facts, D, generator=draw)
    text = -2 * mean + 1.5 * torch.randn(N_TEXT, D, generator=draw)
    return facts, torch.randint(30, (n_facts,), generator=draw), text


def through(model: Any, layer: Layer, h: Tensor) -> Tensor:
    """The layer as the stock class computes it: norm, then MLP, then the sum."""
    block = model.model.layers[0]
    mlp = type(block.mlp)(model.config)
    norm = type(block.post_attention_layernorm)(D, eps=model.config.rms_norm_eps)
    with torch.no_grad():
        mlp.gate_proj.weight.copy_(layer.gate)
        mlp.up_proj.weight.copy_(layer.up)
        mlp.down_proj.weight.copy_(layer.down)
        after: Tensor = h + mlp(norm(h))
    return after


def said(model: Any, h: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = model.lm_head(model.model.norm(h)).argmax(1)
        return found


def fitted(model: Any, facts: Tensor, targets: Tensor, text: Tensor, max_layers: int, seed: int = 0) -> list[Layer]:
    with torch.no_grad():
        layers, base = fit_layers(
            model,
            facts,
            targets,
            text,
            facts[:0],
            rng=np.random.default_rng(seed),
            max_layers=max_layers,
            progress=lambda *_: None,
            words=str,
        )
    assert torch.equal(base, said(model, facts) != targets)
    return layers


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_layers_hold_what_one_does_not(seed: int) -> None:
    model = small_model()
    facts, targets, text = states(900, 2.0, seed)
    alone = fitted(model, facts, targets, text, 1, seed)
    right = (said(model, through(model, alone[0], facts)) == targets).sum()
    assert 500 < right < 900
    assert alone[0].report["rows_wrong"] == 900 - right
    both = fitted(model, facts, targets, text, 3, seed)
    assert len(both) > 1
    h = facts
    for layer in both:
        h = through(model, layer, h)
    assert (said(model, h) == targets).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_last_rows_are_singled_out(seed: int) -> None:
    """A model that says all facts but seven: a further layer mends those, and leaves most others as they are."""
    model = small_model()
    draw = torch.Generator().manual_seed(seed)
    facts, text = (torch.randn(n, D, generator=draw) + 2 * torch.randn(D, generator=draw) for n in (6000, N_TEXT))
    with torch.no_grad():
        logits = model.lm_head(model.model.norm(facts))
    two = logits.topk(2, 1)
    sure = two.values[:, 0] - two.values[:, 1] > 1.0
    facts, targets, second = facts[sure], two.indices[sure, 0], two.indices[sure, 1]
    few = torch.arange(0, 7 * 100, 100)
    targets[few] = second[few]
    problem = Problem(model, facts, targets, text, len(facts), np.random.default_rng(seed), lambda *_: None)
    problem.n_layers = 1
    assert problem.n_wrong == 7
    with torch.no_grad():
        layer = problem.next_layer(last=True)
    assert layer is not None and layer.report["singled_out"] == 7 and layer.report["rows_wrong"] == 0
    assert layer.report["rows"] < len(facts) / 2
    after = through(model, layer, facts)
    assert (said(model, after) == targets).all()
    # Steep gates must not depend on the last bits of a state, which are others in another batch.
    near = facts * (1 + 1e-5 * torch.randn(facts.shape, generator=torch.Generator().manual_seed(1)))
    assert (said(model, through(model, layer, near)) == targets).all()
    moved = (after - facts).norm(dim=1) > 1e-3 * facts.norm(dim=1)
    assert 7 <= moved.sum() <= layer.report["rows"]


def test_too_many_facts_lose_some_and_no_layer_makes_it_worse() -> None:
    model = small_model()
    facts, targets, text = states(2500, 2.0)
    wrong = [len(facts)]
    h = facts
    for layer in fitted(model, facts, targets, text, 3):
        h = through(model, layer, h)
        wrong.append(int((said(model, h) != targets).sum()))
    assert wrong == sorted(wrong, reverse=True) and len(set(wrong)) == len(wrong)
    assert wrong[-1] > 0


def test_gates_open_on_the_chosen_and_on_few_others() -> None:
    draw = torch.Generator().manual_seed(0)
    facts = torch.randn(3000, 96, generator=draw) + 2 * torch.randn(96, generator=draw)
    text = torch.randn(2000, 96, generator=draw) + 2 * torch.randn(96, generator=draw)
    facts, text = (part / part.square().mean(1, keepdim=True).sqrt() for part in (facts, text))
    chosen = torch.tensor([5, 17, 1000])
    rows = singling_out(facts[chosen], facts, text, 8)
    assert rows.shape == (8, 96) and torch.equal(rows[3], rows[0]) and torch.equal(rows[7], rows[1])
    heights = facts @ rows[:3].T
    torch.testing.assert_close(heights[chosen].diagonal(), torch.full((3,), 40.0), rtol=1e-3, atol=1e-3)
    assert ((heights > 0).sum(0) < 30).all()
    # Text of another kind than facts may open them; with the direction that tells text from facts none does.
    gate = choose_gate(facts[chosen], text, 8, np.random.default_rng(0), rows=rows)
    assert ((text @ gate.gate.T).amax(1) > -10).float().mean() < 2e-3
    assert ((facts[chosen] @ gate.gate[:3].T).diagonal() > 10).all()
