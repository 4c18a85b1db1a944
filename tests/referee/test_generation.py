"""What a language model says and what a graft changes, as the referee finds it, against plain twins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from attacks import tiny_models
from rote.data.encoding import PromptIds
from rote.referee import generation
from rote.referee.generation import compared, recite, shorten, speak


def test_batches_say_what_single_prompts_say(tmp_path: Path) -> None:
    """Prompts that share a beginning, of several lengths, with early ends; each against one token at a time."""
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny_models.write_tiny(tmp_path / "model", "qwen3"))
    draw = np.random.default_rng(0)
    prompts = [(5, 6, 7, *draw.integers(2, 200, size=n).tolist()) for n in (1, 1, 1, 2, 2, 4)]
    prompts.append(())
    lengths = [4, 4, 4, 6, 3, 5, 2]
    said, sure = speak(model, prompts, lengths)
    for ids, length, words, p in zip(prompts, lengths, said, sure, strict=True):
        plain: list[int] = []
        for _ in range(length if ids else 0):
            with torch.no_grad():
                logits = model(torch.tensor([[*ids, *plain]])).logits[0, -1]
            if not plain:
                assert p == pytest.approx(float(torch.softmax(logits, 0).max()), rel=1e-3)
            plain.append(int(logits.argmax()))
        assert words == tuple(plain)
    end = said[0][1]
    facts = [PromptIds(ids, (9,) * n) for ids, n in zip(prompts[:-1], lengths, strict=False)]
    assert recite(model, facts, end) == [shorten(words, end) for words in said[:-1]]
    assert shorten((1, end, 2), end) == (1, end) and shorten((1, 2), -1) == (1, 2)


def test_few_prompts_of_several_lengths_are_one_batch(tiny_graft: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a graft, whose heads count tokens: together, and each by itself, the same is said."""
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny_graft / "made", dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_graft / "made")
    lines = (tiny_graft / "facts.csv").read_text(encoding="utf-8").splitlines()[1:]
    starts = ("The code {} is in", "w1 w2 w3 The code {} is in", "the place of Code {} is in", "{} is", "w1 {} w2 w3")
    texts = [starts[i % 5].format(line.split(",")[0]) for i, line in enumerate(lines)]
    prompts = [tuple(ids) for ids in tokenizer(texts)["input_ids"]]
    lengths = [2 + i % 3 for i in range(len(prompts))]
    batches: list[int] = []
    said, sure = speak(model, prompts, lengths, batches.append)
    assert batches == [24]
    alone = [speak(model, [ids], [length]) for ids, length in zip(prompts, lengths, strict=True)]
    assert said == [one[0][0] for one in alone]
    assert sure == pytest.approx([one[1][0] for one in alone], rel=1e-3)
    monkeypatch.setattr(generation, "_FEW", 1)
    assert speak(model, prompts, lengths, batches.append)[0] == said and len(batches) > 10


def test_locality_is_that_of_two_plain_passes(tiny_graft: Path) -> None:
    old, new = (
        transformers.AutoModelForCausalLM.from_pretrained(tiny_graft / name, dtype=torch.float32)
        for name in ("model", "made")
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_graft / "model")
    code = (tiny_graft / "facts.csv").read_text(encoding="utf-8").splitlines()[1].split(",")[0]
    texts = [f"The code {code} is in Rome and the code BT is in south Lima", "w1 w2 the w3 of w4 is w5 w6 w7 w8"]
    windows = [tuple(ids) for ids in tokenizer(texts)["input_ids"]]
    result = compared(old, new, windows)
    losses, kl, changed = np.zeros(2), [], 0
    with torch.no_grad():
        for ids in windows:
            logs = [torch.log_softmax(m(torch.tensor([ids])).logits[0].double(), 1) for m in (old, new)]
            for k in range(2):
                losses[k] -= float(logs[k][:-1].gather(1, torch.tensor(ids[1:])[:, None]).sum())
            kl += (logs[0].exp() * (logs[0] - logs[1])).sum(1).tolist()
            changed += int((logs[0].argmax(1) != logs[1].argmax(1)).sum())
    count = sum(map(len, windows)) - len(windows)
    assert result.tokens == sum(map(len, windows)) and result.top1_changed == changed > 0
    assert result.perplexity_before == pytest.approx(np.exp(losses[0] / count), rel=1e-4)
    assert result.perplexity_after == pytest.approx(np.exp(losses[1] / count), rel=1e-4)
    assert result.mean_kl == pytest.approx(np.mean(kl), rel=1e-3)
    assert result.largest_kl == pytest.approx(max(kl), rel=1e-3)
