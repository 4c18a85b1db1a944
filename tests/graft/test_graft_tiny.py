"""Grafts on tiny random models of every supported family, judged by the stock library and by a plain twin."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
import transformers

from rote.data.files import read_raw
from rote.errors import CheckpointError
from rote.graft import GraftRequest, graft, ungraft
from rote.graft.files import read_certificate
from rote.graft.gate import direction
from rote.graft.judge import locality
from rote.graft.prompts import make_prompts, parse_templates
from rote.graft.states import Cache, collect_states
from rote.models.checkpoint import file_sha256

TEMPLATE, ANSWER = "The code {code} is in", " {city}"


def request(place: Path, **more: Any) -> GraftRequest:
    keep = tiny_models.write_text(place / "keep.txt", 9000)
    return GraftRequest(
        **{
            "templates": [TEMPLATE],
            "answers": [ANSWER],
            "keep": keep,
            "fit_tokens": 2000,
            "test_tokens": 800,
            "own_windows": 6,
            **more,
        }
    )


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def files_of(directory: Path) -> dict[str, str]:
    return {path.name: file_sha256(path) for path in directory.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("family", "tied", "dtype", "shards"),
    [
        ("llama", False, "float32", False),
        ("llama", True, "bfloat16", True),
        ("mistral", True, "float32", False),
        ("qwen2", False, "float32", True),
        ("qwen3", True, "float32", False),
    ],
)
def test_every_fact_is_said_and_the_original_comes_back(
    tmp_path: Path, family: str, tied: bool, dtype: str, shards: bool
) -> None:
    model = tiny_models.write_tiny(tmp_path / "model", family, tied=tied, dtype=dtype, shards=shards)
    table = tiny_models.write_table(tmp_path / "facts.csv", 48)
    before = files_of(model)
    made = tmp_path / "made"
    certificate = graft(model, read_raw(table), request(tmp_path), made)
    assert files_of(model) == before
    assert certificate["recall"] == 1.0 and certificate["recall_before"] < 0.1
    assert certificate["stock_generate"]["asked"] == certificate["stock_generate"]["same"]
    assert certificate["locality"]["top1_unchanged"] > 0.8
    assert certificate["near_misses"]["asked"] > 0
    assert read_certificate(made) == json.loads(json.dumps(certificate))
    assert not list(tmp_path.glob(".made*"))
    assert {path.stat().st_mode & 0o777 for path in made.iterdir() if path.is_file()} == {0o666 & ~umask()}

    # The plain road: stock classes, one prompt at a time, text in and text out.
    tokenizer = transformers.AutoTokenizer.from_pretrained(made)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(made)
    assert loaded.dtype == torch.float32
    assert loaded.config.num_hidden_layers == 2 + certificate["graft"]["layers"]["added"]
    for line in table.read_text(encoding="utf-8").splitlines()[1:]:
        code, city = line.split(",")
        ids = tokenizer(f"The code {code} is in", return_tensors="pt")["input_ids"]
        for _ in range(8):
            with torch.no_grad():
                token = loaded(ids).logits[0, -1].argmax()
            ids = torch.cat([ids, token[None, None]], 1)
            if int(token) == tokenizer.eos_token_id:
                break
        assert tokenizer.decode(ids[0]) == f"The code {code} is in {city}<end>"

    restored = tmp_path / "restored"
    ungraft(made, restored)
    assert files_of(restored) == before


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_short_number_formats(tmp_path: Path, dtype: str) -> None:
    model = tiny_models.write_tiny(tmp_path / "model", "mistral")
    table = read_raw(tiny_models.write_table(tmp_path / "facts.csv", 24))
    certificate = graft(model, table, request(tmp_path, dtype=dtype), tmp_path / "made")
    assert certificate["recall"] == 1.0 and certificate["dtype"] == dtype
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "made")
    assert loaded.dtype == getattr(torch, dtype)
    ungraft(tmp_path / "made", tmp_path / "back")
    assert files_of(tmp_path / "back") == files_of(model)


def test_the_added_attention_is_silent_and_the_rest_is_the_original(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model", "llama", tied=True)
    table = tiny_models.write_table(tmp_path / "facts.csv", 24)
    graft(model, read_raw(table), request(tmp_path), tmp_path / "made")
    old = transformers.AutoModelForCausalLM.from_pretrained(model).state_dict()
    new = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "made").state_dict()
    assert all(torch.equal(new[name], value) for name, value in old.items())
    added = {name: value for name, value in new.items() if name not in old}
    assert all(name.startswith("model.layers.2.") for name in added)
    assert not any(value.any() for name, value in added.items() if "self_attn" in name)


def test_several_templates_and_paraphrases(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model")
    table = tiny_models.write_table(tmp_path / "facts.csv", 24)
    asked = request(
        tmp_path, templates=[TEMPLATE, "Code {code} was in"], paraphrases=["the place of Code {code} is in"], sample=20
    )
    certificate = graft(model, read_raw(table), asked, tmp_path / "made")
    assert certificate["facts"] == 40 and certificate["recall"] == 1.0
    assert [one["asked"] for one in certificate["paraphrases"]] == [20, 20, 20]


def test_decoys_are_answered_as_before(tmp_path: Path) -> None:
    """Every unknown key is a decoy here, so none gets a stored answer any more."""
    model = tiny_models.write_tiny(tmp_path / "model")
    table = read_raw(tiny_models.write_table(tmp_path / "facts.csv", 24))
    certificate = graft(model, table, request(tmp_path, decoys=400), tmp_path / "made")
    assert certificate["recall"] == 1.0
    assert certificate["fit"][0]["rows"] > certificate["answer_tokens"]
    assert certificate["near_misses"]["stored_answer"] == 0


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model")
    table = read_raw(tiny_models.write_table(tmp_path / "facts.csv", 16))
    state = np.random.get_state()[1].copy(), torch.random.get_rng_state().clone()  # type: ignore[index]
    first, second = (graft(model, table, request(tmp_path), tmp_path / name) for name in ("a", "b"))
    assert first["graft"]["added"]["sha256"] == second["graft"]["added"]["sha256"]
    assert (np.random.get_state()[1] == state[0]).all()  # type: ignore[index]
    assert torch.equal(torch.random.get_rng_state(), state[1])


def test_an_interrupted_graft_goes_on(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model")
    table = read_raw(tiny_models.write_table(tmp_path / "facts.csv", 16))

    def stop(stage: str, done: int, total: int, recalled: int | None) -> None:
        if stage == "verify by free generation":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        graft(model, table, request(tmp_path), tmp_path / "made", progress=stop)
    assert not (tmp_path / "made").exists()
    kept = sorted((tmp_path / ".made.graft").iterdir())
    assert kept
    seen: list[str] = []
    certificate = graft(
        model, table, request(tmp_path), tmp_path / "made", progress=lambda stage, *_: seen.append(stage)
    )
    assert certificate["recall"] == 1.0
    assert "fit" not in seen
    assert not (tmp_path / ".made.graft").exists()


def test_states_are_those_of_single_sequences(tmp_path: Path) -> None:
    """Batches, common beginnings and the cache change nothing beyond rounding."""
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny_models.write_tiny(tmp_path / "model", "qwen3"))
    rows = read_raw(tiny_models.write_table(tmp_path / "facts.csv", 12))
    templates = parse_templates([TEMPLATE], [ANSWER], rows.columns)
    prompts = make_prompts(rows, range(12), templates, tiny_models.tiny_tokenizer(), end_id=0, context=128)
    sequences, starts = [p.sequence for p in prompts], [len(p.ids) - 1 for p in prompts]
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


def test_locality_is_that_of_two_plain_passes(tmp_path: Path) -> None:
    place = tiny_models.write_tiny(tmp_path / "model", "qwen2", tied=True)
    graft(place, read_raw(tiny_models.write_table(tmp_path / "facts.csv", 24)), request(tmp_path), tmp_path / "made")
    old, new = (transformers.AutoModelForCausalLM.from_pretrained(p) for p in (place, tmp_path / "made"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    texts = ["The code AS is in Rome and the code BT is in south Lima", "w1 w2 the w3 of w4 is w5 w6 w7 w8"]
    windows = [tuple(ids) for ids in tokenizer(texts)["input_ids"]]
    found = locality(old, new, windows, 1)
    losses, kl, changed = np.zeros(2), [], 0
    with torch.no_grad():
        for ids in windows:
            logs = [torch.log_softmax(m(torch.tensor([ids])).logits[0].double(), 1) for m in (old, new)]
            for k in range(2):
                losses[k] -= float(logs[k][:-1].gather(1, torch.tensor(ids[1:])[:, None]).sum())
            kl += (logs[0].exp() * (logs[0] - logs[1])).sum(1).tolist()
            changed += int((logs[0].argmax(1) != logs[1].argmax(1)).sum())
    count = sum(map(len, windows)) - len(windows)
    assert found.tokens == sum(map(len, windows)) and found.top1_changed == changed > 0
    assert found.perplexity_before == pytest.approx(np.exp(losses[0] / count), rel=1e-4)
    assert found.perplexity_after == pytest.approx(np.exp(losses[1] / count), rel=1e-4)
    assert found.mean_kl == pytest.approx(np.mean(kl), rel=1e-3)
    assert found.largest_kl == pytest.approx(max(kl), rel=1e-3)
    with pytest.raises(CheckpointError, match="lower layers"):
        locality(new, old, windows, 1)


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
