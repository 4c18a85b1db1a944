"""Models in TransformerLens, the extra "lens"; `make test-real` installs it and runs this."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import rote
from rote.data import random_facts
from rote.models.kinds.transformer import Transformer

pytestmark = [
    pytest.mark.real,
    # Other people's packages may say what they like.
    pytest.mark.filterwarnings("default"),
]


@pytest.mark.parametrize("with_", ["local_heads", "dana2025_cor1", "argmax_fit", "mlp_fit"])
def test_it_says_what_the_model_says(with_: str) -> None:
    table = random_facts(60, 2, 24, rng=np.random.default_rng(2))
    # Weights of exact association are large and cancel: in float32 the order of sums would show.
    memory = rote.build(table, with_, dtype="float64")
    contexts = torch.tensor(table.contexts)
    bridge = memory.hooked()
    with torch.no_grad():
        said, cache = bridge.run_with_cache(contexts)
        own = memory.module(contexts)
    assert (said[:, -1].argmax(dim=1).numpy() == table.targets).all()
    assert said.dtype == torch.float64 and (said[:, -1] - own).abs().max() < 1e-6 * own.abs().max()
    pattern, module = cache["blocks.0.attn.hook_pattern"][:, :, -1], cast(Transformer, memory.module)
    assert torch.allclose(pattern, module.attention(contexts), atol=1e-5)
    assert cache["blocks.0.hook_resid_post"].shape == (60, 2, memory.certificate.shape["d_model"])


def test_a_local_head_that_is_ablated_there_loses_its_facts_alone() -> None:
    table = rote.read("countries")
    memory = rote.build(table, "local_heads")
    contexts, bridge = torch.tensor(table.inputs(slice(0, table.n_facts))[0]), memory.hooked()
    served = memory.certificate["report"]["served_by_head"]

    def ablated(z: Any, hook: Any) -> Any:
        z[:, :, 5] = 0
        return z

    with torch.no_grad():
        whole = bridge(contexts)[:, -1]
        without = bridge.run_with_hooks(contexts, fwd_hooks=[("blocks.0.attn.hook_z", ablated)])[:, -1]
    moved = torch.nonzero((whole != without).any(dim=1))[:, 0].tolist()
    assert moved == sorted(served[5]), "all other logits are the same, bit by bit"


@pytest.mark.parametrize("with_", ["stock_llama", "stock_hashed"])
def test_stock_checkpoints(with_: str, tmp_path: Path) -> None:
    table = random_facts(40, 2, 24, rng=np.random.default_rng(3))
    memory: Any = rote.build(table, with_).save(tmp_path / "model")
    bridge = rote.load(memory.folder).hooked()
    with torch.no_grad():
        prompts = torch.tensor(table.contexts)
        start = memory.module.config.bos_token_id
        if start is not None:
            prompts = torch.cat([torch.full((len(prompts), 1), start), prompts], dim=1)
        said = bridge(prompts)[:, -1]
    assert (said.argmax(dim=1).numpy() == table.targets).all()
