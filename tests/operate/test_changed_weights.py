"""Models that were trained, hooked and moved: loaded with gradients, verified with other weights, and asked in text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import rote
from rote.cli.main import run
from rote.data import random_facts
from rote.errors import CheckpointError, RoteError, UsageError

TABLE = random_facts(60, 3, 20, rng=np.random.default_rng(3))


def _saved(tmp_path: Path, with_: str, **more: Any) -> Path:
    return rote.build(TABLE, with_, **more).save(tmp_path / "model").folder


@pytest.mark.parametrize("with_", ["hashed_table", "argmax_fit", "mlp_fit"])
def test_loaded_memories_are_trained_on_request(with_: str, tmp_path: Path) -> None:
    folder = _saved(tmp_path, with_)
    assert not any(p.requires_grad for p in rote.load(folder).module.parameters())
    memory = rote.load(folder, trainable=True)
    optimiser = torch.optim.SGD(memory.module.parameters(), lr=1e-3)
    contexts = torch.tensor(TABLE.contexts)
    loss = memory.module(contexts).logsumexp(dim=1).mean()
    loss.backward()
    assert all(p.grad is not None for p in memory.module.parameters())
    optimiser.step()
    assert isinstance(rote.verify(memory.module, TABLE).recall, float)


def test_changed_weights_are_verified_and_the_certificate_is_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts, folder = tmp_path / "facts.csv", tmp_path / "model"
    TABLE.write(facts)
    assert run(["build", str(facts), "-o", str(folder), "--with", "dana2025_cor1"]) == 0
    weights = load_file(folder / "model.safetensors")
    weights["W_O"][0] = 0
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="not what its certificate speaks of"):
        rote.load(folder)
    memory = rote.load(folder, changed_weights=True)
    assert memory.changed == ("model.safetensors",)
    result = rote.verify(memory)
    assert result.changed_files == ("model.safetensors",) and result.promised == 1.0
    assert 0 < (result.lost_since or 0) == result.n_failed and not result.checked
    capsys.readouterr()
    assert run(["verify", str(folder), "--changed-weights"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "which is history: it stated 100 % at float32" in said and f"{result.n_failed} facts were lost since" in said
    assert run(["verify", str(folder), "--changed-weights", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["lost_since"] == result.n_failed
    assert run(["verify", str(folder)]) == 2
    # Only weights may have changed.
    config = folder / "config.json"
    config.write_bytes(config.read_bytes() + b"\n")
    assert run(["verify", str(folder), "--changed-weights"]) == 2
    # An unchanged directory is verified as ever.
    other = _saved(tmp_path / "other", "dana2025_cor1")
    assert rote.verify(str(other), TABLE, changed_weights=True).checked


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    folder = _saved(tmp_path, "dana2025_cor1")
    weights = load_file(folder / "model.safetensors")
    weights["W_O"] = weights["W_O"][:, :, :-1].contiguous()
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(RoteError, match="W_O"):
        rote.load(folder, changed_weights=True)


@pytest.mark.parametrize("with_", ["dana2025_cor1", "mlp_fit"])
def test_hooks_have_the_names_that_people_know(with_: str) -> None:
    memory = rote.build(TABLE, with_)
    names = dict(memory.module.named_modules())
    for name in ("hook_embed", "blocks.0.attn.hook_pattern", "blocks.0.attn.hook_z", "blocks.0.hook_resid_post"):
        assert name in names and name.split(".")[-1] in repr(memory.module)
    seen: dict[str, torch.Tensor] = {}
    handles = [
        module.register_forward_hook(lambda _, __, out, name=name: seen.update({name: out}))
        for name, module in names.items()
        if name.split(".")[-1].startswith("hook_")
    ]
    contexts = torch.tensor(TABLE.contexts)
    logits = memory.module(contexts)
    heads = memory.model.arch.n_heads
    assert seen["blocks.0.attn.hook_pattern"].shape == (60, heads, 3)
    assert torch.allclose(seen["blocks.0.attn.hook_pattern"].sum(dim=-1), torch.ones(60, heads))
    assert torch.equal(seen["blocks.0.hook_resid_post"] @ memory.module.get_parameter("W_U").T, logits)
    assert ("blocks.0.mlp.hook_post" in seen) == (with_ == "mlp_fit")
    for handle in handles:
        handle.remove()

    # A hook that silences a head does what `locate` does with its weights.
    def silent(_: Any, __: Any, out: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.zeros_like(out[:, :1]), out[:, 1:]], dim=1)

    with_hook = names["blocks.0.attn.hook_z"].register_forward_hook(silent)
    lost = int((memory.module(contexts).argmax(dim=1) != torch.tensor(TABLE.targets)).sum())
    with_hook.remove()
    assert memory.dependents("W_O[0]", table=TABLE).n_lost == lost


def test_hashed_tables_can_be_hooked_too() -> None:
    memory = rote.build(TABLE, "hashed_table")
    names = dict(memory.module.named_modules())
    assert {"hook_embed", "hook_pattern", "hook_z", "layers.0"} <= names.keys() and "Linear" in repr(memory.module)


def test_stock_models_are_asked_in_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import transformers

    facts = tmp_path / "facts.csv"
    TABLE.write(facts)
    folder = _saved(tmp_path, "stock_llama")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    whole = rote.verify(model, TABLE, tokenizer=tokenizer)
    assert whole.passed and whole.n_facts == 60 and whole.judged_by == "the model's own generation"
    pipe = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer)
    assert rote.verify(pipe, TABLE).passed
    # Fine-tuned and saved by transformers: no certificate, asked in text all the same.
    with torch.no_grad():
        model.model.layers[0].self_attn.o_proj.weight[:, : model.config.head_dim] = 0
    tuned = tmp_path / "tuned"
    model.save_pretrained(tuned)
    tokenizer.save_pretrained(tuned)
    lost = rote.verify(model, TABLE, tokenizer=tokenizer)
    assert lost.n_failed > 0
    for one in lost.failures:
        assert one.expected != one.got
    capsys.readouterr()
    assert run(["verify", str(tuned), str(facts), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["n_failed"] == lost.n_failed
    assert run(["verify", str(tuned)]) == 2
    assert "give them as well" in capsys.readouterr().err
    # Hooks on the stock module.
    seen = []
    handle = model.model.layers[0].self_attn.o_proj.register_forward_hook(lambda _, __, out: seen.append(out.shape))
    model(torch.tensor([tokenizer("t01 t02 t03")["input_ids"]]))
    handle.remove()
    assert seen == [(1, 3, model.config.hidden_size)]


def test_what_cannot_be_asked_in_text_is_refused() -> None:
    with pytest.raises(UsageError, match="does not generate text"):
        rote.verify(torch.nn.Linear(2, 2), TABLE, tokenizer=lambda text: text)
    with pytest.raises(UsageError, match="give the table"):
        rote.verify(torch.nn.Linear(2, 2))


def test_a_stock_checkpoint_is_asked_through_its_own_tokenizer(tmp_path: Path) -> None:
    """It splits at tabs, as tokens may have blanks in them, and knows no other words."""
    import transformers

    table = rote.FactTable.from_rows([("south china", "mouth"), ("nile", "mouth")], ["black sea", "nile"])
    folder = rote.build(table, "stock_llama").save(tmp_path / "model").folder
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert rote.verify(model, table, tokenizer=tokenizer).passed
    with pytest.raises(UsageError, match="tokenizer cannot read words of these facts"):
        rote.verify(model, TABLE, tokenizer=tokenizer)
