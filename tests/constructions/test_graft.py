"""Grafts on tiny random models of every supported family, judged by the stock library and by a plain twin."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import rote
from attacks import tiny_models
from rote.constructions import Progress, quiet
from rote.memory import Memory
from rote.models.folders import file_sha256

TEMPLATE, ANSWER = "The code {code} is in", " {city}"


def grafted(
    place: Path,
    model: Path,
    facts: Path,
    name: str | None = "made",
    *,
    template: list[str] | str = TEMPLATE,
    sample: int | None = None,
    dtype: str | None = None,
    progress: Progress = quiet,
    **more: Any,
) -> Memory:
    keep = tiny_models.write_text(place / "keep.txt", 9000)
    options = rote.Graft(**{"keep": keep, "keep_tokens": 2000, "test_tokens": 800, "own_windows": 6, **more})
    output = None if name is None else place / name
    return rote.graft(
        model,
        facts,
        template=template,
        answer=ANSWER,
        sample=sample,
        dtype=dtype,
        options=options,
        output=output,
        progress=progress,
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
    memory = grafted(tmp_path, model, table)
    certificate = memory.certificate
    assert files_of(model) == before
    assert certificate["recall"] == {"float32": 1.0} and certificate["recall_before"] < 0.1
    assert certificate["stock_generate"]["asked"] == certificate["stock_generate"]["same"]
    assert certificate["locality"]["top1_unchanged"] > 0.8
    assert certificate["near_misses"]["asked"] > 0
    assert rote.load(made).certificate == certificate
    assert json.loads((made / "certificate.json").read_text(encoding="utf-8")) == certificate.to_dict()
    assert rote.verify(made).passed
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
    rote.ungraft(made, restored)
    assert files_of(restored) == before


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_short_number_formats(tmp_path: Path, dtype: str) -> None:
    model = tiny_models.write_tiny(tmp_path / "model", "mistral")
    table = tiny_models.write_table(tmp_path / "facts.csv", 24)
    certificate = grafted(tmp_path, model, table, dtype=dtype).certificate
    assert certificate.recall == {dtype: 1.0} and certificate.dtype == dtype
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "made")
    assert loaded.dtype == getattr(torch, dtype)
    rote.ungraft(tmp_path / "made", tmp_path / "back")
    assert files_of(tmp_path / "back") == files_of(model)


def test_the_added_attention_is_silent_and_the_rest_is_the_original(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model", "llama", tied=True)
    table = tiny_models.write_table(tmp_path / "facts.csv", 24)
    grafted(tmp_path, model, table)
    old = transformers.AutoModelForCausalLM.from_pretrained(model).state_dict()
    new = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "made").state_dict()
    assert all(torch.equal(new[name], value) for name, value in old.items())
    added = {name: value for name, value in new.items() if name not in old}
    assert all(name.startswith("model.layers.2.") for name in added)
    assert not any(value.any() for name, value in added.items() if "self_attn" in name)


def test_several_templates_and_paraphrases(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model")
    table = tiny_models.write_table(tmp_path / "facts.csv", 24)
    templates, paraphrase = [TEMPLATE, "Code {code} was in"], ("the place of Code {code} is in",)
    memory = grafted(tmp_path, model, table, template=templates, paraphrase=paraphrase, sample=20)
    certificate = memory.certificate
    assert certificate.facts == 40 and certificate.passed
    assert memory.table().sha256 == certificate.facts_sha256
    assert [one["asked"] for one in certificate["paraphrases"]] == [20, 20, 20]


def test_decoys_are_answered_as_before(tmp_path: Path) -> None:
    """Every unknown key is a decoy here, so none gets a stored answer any more."""
    model = tiny_models.write_tiny(tmp_path / "model")
    table = tiny_models.write_table(tmp_path / "facts.csv", 24)
    certificate = grafted(tmp_path, model, table, decoys=400).certificate
    assert certificate.passed
    assert certificate["fit"][0]["rows"] > certificate["answer_tokens"]
    assert certificate["near_misses"]["stored_answer"] == 0


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model")
    table = tiny_models.write_table(tmp_path / "facts.csv", 16)
    state = np.random.get_state()[1].copy(), torch.random.get_rng_state().clone()  # type: ignore[index]
    first, second = (grafted(tmp_path, model, table, name).certificate for name in ("a", "b"))
    assert first["graft"]["added"]["sha256"] == second["graft"]["added"]["sha256"]
    assert first.weights_sha256 == second.weights_sha256
    assert (np.random.get_state()[1] == state[0]).all()  # type: ignore[index]
    assert torch.equal(torch.random.get_rng_state(), state[1])


def test_an_interrupted_graft_goes_on(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model")
    table = tiny_models.write_table(tmp_path / "facts.csv", 16)

    def stop(stage: str, done: int, total: int, recalled: int | None) -> None:
        if stage == "verify float32":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grafted(tmp_path, model, table, progress=stop)
    assert not (tmp_path / "made").exists()
    assert sorted((tmp_path / ".made.graft").iterdir())
    seen: list[str] = []
    certificate = grafted(tmp_path, model, table, progress=lambda stage, *_: seen.append(stage)).certificate
    assert certificate.passed
    assert "fit" not in seen
    assert not (tmp_path / ".made.graft").exists()
    whole = grafted(tmp_path, model, table, "whole").certificate
    clocks = {k for k in whole if "seconds" in k} | {"certificate_sha256"}
    assert {k: v for k, v in whole.items() if k not in clocks} == {
        k: v for k, v in certificate.items() if k not in clocks
    }


def test_a_graft_without_an_output_lives_in_memory_until_it_is_saved(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model")
    rows = [{"code": "AS", "city": "Rome"}, {"code": "AT", "city": "south Oslo"}, {"code": "BU", "city": "Lima"}]
    keep = tiny_models.write_text(tmp_path / "keep.txt", 9000)
    options = rote.Graft(keep=keep, keep_tokens=2000, test_tokens=800, own_windows=6)
    memory = rote.graft(model, rows, template=TEMPLATE, answer=ANSWER, options=options)
    assert memory.certificate.passed and memory.certificate.read is None
    assert memory.ask("The code AT is in")[0].token == " south Oslo"
    folder = memory.folder
    saved = memory.save(tmp_path / "made")
    del memory
    assert not folder.exists()
    assert saved.ask("The code BU is in")[0].token == " Lima"
    again = rote.load(tmp_path / "made").save(tmp_path / "copy")
    assert rote.verify(again, rote.prompts(rows, template=TEMPLATE, answer=ANSWER)).passed
    rote.ungraft(tmp_path / "copy", tmp_path / "back")
    assert files_of(tmp_path / "back") == files_of(model)
    with pytest.raises(rote.RoteError, match="table in memory"):
        rote.verify(tmp_path / "made")


def test_a_directory_finds_its_facts_by_itself(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model")
    (tmp_path / "there").mkdir()
    table = tiny_models.write_table(tmp_path / "there" / "facts.csv", 16)
    grafted(tmp_path / "there", model, table, sample=9)
    shutil.move(tmp_path / "there", tmp_path / "here")
    assert rote.verify(tmp_path / "here" / "made").n_facts == 9
    certificate = rote.load(tmp_path / "here" / "made").certificate
    assert certificate.options["model"] == "model" and certificate.options["keep"] == "keep.txt"
    assert str(tmp_path) not in json.dumps(certificate.to_dict())


def test_lost_facts_are_handed_over_and_named(tmp_path: Path) -> None:
    """A single layer of a tiny model cannot tell hundreds of facts apart in bfloat16; what it loses is said."""
    model = tiny_models.write_tiny(tmp_path / "model", "mistral", intermediate_size=8)
    table = tiny_models.write_table(tmp_path / "facts.csv", 48)
    memory = grafted(tmp_path, model, table, dtype="bfloat16", max_layers=1)
    certificate = memory.certificate
    assert not certificate.passed
    lost = round(48 * (1 - certificate.recall["bfloat16"]))
    assert certificate["recalled"] == 48 - lost and len(certificate["failed"]) == min(10, lost)
    first = certificate["failed"][0]
    assert first["place"].startswith("row ") and first["said"] != first["answer"]
    assert "lost: 'The code" in str(memory.sheet().notes)
    result = rote.verify(tmp_path / "made")
    assert result.n_failed == lost and result.failures[0].got == first["said"]


def test_a_graft_has_templates_once(tmp_path: Path) -> None:
    table = rote.prompts([{"a": "x", "b": "y"}], template="{a} is", answer=" {b}")
    with pytest.raises(rote.RoteError, match="templates already"):
        rote.graft(tmp_path, table, template="{a} was", answer=" {b}")
