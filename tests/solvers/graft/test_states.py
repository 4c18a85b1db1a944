"""States of batches, and the direction that tells facts from text, against plain twins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import transformers

from attacks import tiny_models
from rote.data.encoding import encode_prompts
from rote.data.kinds.prompts import prompts
from rote.solvers.graft.gate import direction
from rote.solvers.graft.states import Cache, collect_states


def test_states_are_those_of_single_sequences(tmp_path: Path) -> None:
    """Batches, common beginnings and the cache change nothing beyond rounding."""
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny_models.write_tiny(tmp_path / "model", "qwen3"))
    path = tiny_models.write_table(tmp_path / "facts.csv", 12)
    table = prompts(path, template="The code {code} is in", answer=" {city}")
    facts = encode_prompts(table.facts, tiny_models.tiny_tokenizer(), end_id=0, context=128)
    sequences, starts = [fact.sequence for fact in facts], [len(fact.ids) - 1 for fact in facts]
    cache = Cache(tmp_path / "cache")
    found = collect_states(model, sequences, starts, cache=cache, key="k")
    assert torch.equal(found, collect_states(model, sequences, starts, cache=cache, key="k"))
    plain: list[torch.Tensor] = []
    hook = model.model.norm.register_forward_pre_hook(lambda _, inputs: plain.append(inputs[0]))
    with torch.no_grad():
        for ids in sequences:
            model(torch.tensor([ids]))
    hook.remove()
    twin = torch.cat([states[0, start:] for states, start in zip(plain, starts, strict=True)])
    torch.testing.assert_close(found, twin, rtol=1e-4, atol=1e-5)


def test_the_direction_is_the_minimiser() -> None:
    """Newton's answer against many small gradient steps on the same problem."""
    draw = np.random.default_rng(0)
    facts = torch.as_tensor(draw.standard_normal((40, 6)) * 0.2 + 1.0, dtype=torch.float32)
    text = torch.as_tensor(draw.standard_normal((200, 6)), dtype=torch.float32)
    weights = torch.ones(40, dtype=torch.float64)
    found = direction(facts, text, weights, 1e-2)

    def loss(w: torch.Tensor) -> torch.Tensor:
        outside = (facts.double() @ w).abs().sub(0.02).clamp(min=0)
        leak = (text.double() @ w + 1.0).clamp(min=0)
        return 0.5 * (1e-2 * w.square().sum() + outside.square().mean() + leak.square().mean())

    twin = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([twin], lr=0.05)
    for _ in range(4000):
        optimiser.zero_grad()
        loss(twin).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert float(loss(found)) <= float(loss(twin.detach())) + 1e-6
    torch.testing.assert_close(found, twin.detach(), rtol=0.02, atol=0.02)
