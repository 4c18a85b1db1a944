"""The judge of stock checkpoints against plain prompts to the model in memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from rote.data import PAD, FactTable, Vocabulary
from rote.errors import CheckpointError
from rote.referee import Stored, judge, read_stored, registry

transformers = pytest.importorskip("transformers")

WORDS = Vocabulary([PAD, "a", "b", "c", "d", "e"])
CONTEXTS = np.array([[1, 2, 3], [0, 4, 5], [0, 0, 2], [3, 1, 4], [0, 0, 5]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stock")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS), hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(place)
    vocabulary = {token: i for i, token in enumerate(WORDS.tokens)}
    (place / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
    return place


def plain_logits(folder: Path, dtype: torch.dtype) -> torch.Tensor:
    """One prompt at a time, without its padding."""
    stock = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=dtype)
    with torch.no_grad():
        return torch.stack([stock(torch.from_numpy(row[row > 0])[None]).logits[0, -1] for row in CONTEXTS])


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_contexts_are_prompts_without_padding(folder: Path, dtype: str) -> None:
    wanted = plain_logits(folder, getattr(torch, dtype))
    outputs = registry()["llama"].outputs(read_stored(folder, "llama"), dtype, None)
    said = outputs.scores((CONTEXTS,))
    assert said.dtype == wanted.dtype
    torch.testing.assert_close(said, wanted, rtol=1e-2 if dtype == "bfloat16" else 1e-5, atol=1e-2)


def test_facts_are_judged(folder: Path) -> None:
    answers = plain_logits(folder, torch.float64)[:, 1:].argmax(dim=1).numpy() + 1
    wrong = answers.copy()
    wrong[2] = answers[2] % 5 + 1
    stored = read_stored(folder, "llama")
    lost = judge(stored, FactTable(CONTEXTS, wrong, WORDS), "float64").failures
    assert 3 in [one.fact for one in lost]
    best = plain_logits(folder, torch.float64).argmax(dim=1).numpy()
    expected = int((best != answers).sum())
    assert judge(stored, FactTable(CONTEXTS, answers, WORDS), "float64").n_failed == expected


def test_what_is_no_checkpoint_is_refused(folder: Path, tmp_path: Path) -> None:
    table = FactTable(CONTEXTS, np.array([1, 2, 3, 4, 5]), WORDS)
    with pytest.raises(CheckpointError, match="transformers cannot load"):
        judge(read_stored(tmp_path, "llama"), table, "float32")
    with pytest.raises(CheckpointError, match="save the model first"):
        judge(Stored("llama", {}, {}), table, "float32")
