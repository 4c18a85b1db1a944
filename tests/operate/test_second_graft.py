"""A graft on a graft: both tables answer, what neither has is left alone, and each comes off by itself, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers

import rote
from attacks import tiny_models
from rote.models.folders import hashes

WORDINGS = ("The answer of {word} is", "the answer of {word} was", "Question and answer. {word} is")


def test_two_tables(tiny_graft: Path, tmp_path: Path) -> None:
    first = (tiny_graft / "facts.csv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [{"word": f"w{i}", "part": tiny_models.PARTS[i % 4]} for i in range(20)]
    options = rote.Graft(keep=tiny_graft / "keep.txt", examined=8, bar=0.0)
    made = rote.graft(
        tiny_graft / "made", rows, template=WORDINGS, answer=" {part}", options=options, output=tmp_path / "two"
    )
    assert made.certificate.passed
    (lower,) = made.certificate["lower"]
    assert lower["recalled"] == lower["asked"] == 8
    for line in first[:8]:
        code, city = line.split(",")
        assert made.ask(f"Code {code} was in")[0].token == f" {city}"
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_graft / "model")
    original = transformers.AutoModelForCausalLM.from_pretrained(tiny_graft / "model", dtype=torch.float32)
    known = {line.split(",")[0] for line in first}
    unknown = [key for key in tiny_models.KEYS if key not in known][:6]
    for prompt in [f"The code {key} is in" for key in unknown] + [f"The answer of w{i} is" for i in range(30, 36)]:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            assert torch.allclose(original(ids).logits, made.module(ids).logits, atol=2e-3)
    more = rote.graft_add(tmp_path / "two", [{"word": "w25", "part": "east"}])
    assert more.ask("The answer of w25 is")[0].token == " east"
    rote.graft_pack(tmp_path / "two", tmp_path / "two.graft")
    rote.graft_apply(tiny_graft / "made", tmp_path / "two.graft", tmp_path / "again")
    # A card names its directory.
    again, two = ({k: v for k, v in hashes(tmp_path / one).items() if k != "README.md"} for one in ("again", "two"))
    assert again == two
    rote.ungraft(tmp_path / "two", tmp_path / "one")
    assert hashes(tmp_path / "one") == hashes(tiny_graft / "made")
    rote.ungraft(tmp_path / "one")
    assert hashes(tmp_path / "one") == hashes(tiny_graft / "model")


def test_an_edited_graft_below_is_refused(tiny_graft: Path, tmp_path: Path) -> None:
    import shutil

    made = shutil.copytree(tiny_graft / "made", tmp_path / "made")
    (made / "generation_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(rote.RoteError, match="was changed or truncated"):
        rote.graft(made, [{"word": "w1", "part": "east"}], template=WORDINGS[0], answer=" {part}")
