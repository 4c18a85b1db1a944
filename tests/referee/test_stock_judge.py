"""The judge of stock checkpoints against plain prompts to the model in memory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch

from rote.data import PAD, FactTable, Vocabulary
from rote.errors import CheckpointError
from rote.referee import Stored, judge, read_stored, registry
from rote.referee.judges.llama import SpokenScores

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
    write_tokenizer(place, WORDS.tokens)
    return place


def write_tokenizer(place: Path, words: Sequence[str], **settings: str) -> None:
    """A tokenizer of words, written by the library that reads it."""
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="?"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.save(str(place / "tokenizer.json"))
    (place / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **settings}))


def plain_logits(folder: Path, dtype: torch.dtype) -> torch.Tensor:
    """One prompt at a time, without its padding."""
    stock = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=dtype)
    with torch.no_grad():
        return torch.stack([stock(torch.from_numpy(row[row > 0])[None]).logits[0, -1] for row in CONTEXTS])


def test_prompts_that_begin_alike_are_run_from_there(folder: Path) -> None:
    outputs = registry()["llama"].outputs(read_stored(folder, "llama"), "float64", None)
    contexts = np.array([[a, b, c, d] for a in (1, 2) for b in (3, 4) for c in range(1, 6) for d in range(1, 6)])[::-1]
    order = outputs.order((contexts,))
    assert contexts[order].tolist() == sorted(contexts.tolist()), "those that begin alike stand together"
    lengths: list[int] = []
    assert isinstance(outputs, SpokenScores)
    outputs._model.model.embed_tokens.register_forward_hook(lambda _, ids, __: lengths.append(ids[0].numel()))
    said = outputs.scores((contexts[order],))
    assert lengths == [60, 100], "twenty beginnings of three tokens once each, and one token of every prompt"
    stock = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float64)
    with torch.no_grad():
        plain = stock(torch.from_numpy(contexts[order])).logits[:, -1]
    torch.testing.assert_close(said, plain.float(), rtol=1e-5, atol=1e-5)


def test_the_first_losers_are_named_in_whatever_order_facts_are_asked(folder: Path) -> None:
    contexts = np.array([[a, b] for a in range(5, 0, -1) for b in range(5, 0, -1)])
    with torch.no_grad():
        stock = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
        said = stock(torch.from_numpy(contexts)).logits[:, -1].argmax(-1).numpy()
    facts = FactTable(contexts, np.where(said == 1, 2, 1), WORDS)
    verdict = judge(read_stored(folder, "llama"), facts, "float32")
    assert verdict.n_failed == len(contexts)
    first = [(i + 1, facts.text(contexts[i])) for i in range(len(verdict.failures))]
    assert [(failure.fact, failure.context) for failure in verdict.failures] == first


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_contexts_are_prompts_without_padding(folder: Path, dtype: str) -> None:
    wanted = plain_logits(folder, getattr(torch, dtype))
    outputs = registry()["llama"].outputs(read_stored(folder, "llama"), dtype, None)
    said = outputs.scores((CONTEXTS,))
    # The library's generate() compares scores in float32, whatever the model is run in.
    torch.testing.assert_close(said, wanted.float(), rtol=1e-2 if dtype == "bfloat16" else 1e-5, atol=1e-2)


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
    with pytest.raises(CheckpointError, match=r"there is no file .*tokenizer.json"):
        judge(read_stored(tmp_path, "llama"), table, "float32")
    with pytest.raises(CheckpointError, match="save the model first"):
        judge(Stored("llama", {}, {}), table, "float32")


def test_a_tokenizer_that_cuts_tokens_apart_loses_the_facts(folder: Path, tmp_path: Path) -> None:
    """Padding that is spelled inside of another token, as `0` in `10`, is cut out of it by the library."""
    words = Vocabulary(["0", "1", "10", "x", "y", "z"])
    contexts = np.array([[0], [1], [2]])
    for settings, lost in (({}, 0), ({"pad_token": "0"}, 1)):
        place = tmp_path / f"padding-{lost}"
        shutil.copytree(folder, place)
        write_tokenizer(place, words.tokens, **settings)
        stock = transformers.AutoModelForCausalLM.from_pretrained(str(folder))
        with torch.no_grad():
            targets = stock(torch.from_numpy(contexts)).logits[:, -1].argmax(dim=1).numpy()
        verdict = judge(read_stored(place, "llama"), FactTable(contexts, targets, words), "float32")
        assert [one.fact for one in verdict.failures] == [3] * lost


def test_answers_that_are_spelled_otherwise_are_lost(folder: Path, tmp_path: Path) -> None:
    """Two names changed places in the tokenizer: the scores are right, the words that come out are not."""
    place = tmp_path / "renamed"
    shutil.copytree(folder, place)
    answers = plain_logits(folder, torch.float32).argmax(dim=1).numpy()
    table = FactTable(CONTEXTS[answers > 0], answers[answers > 0], WORDS)
    assert judge(read_stored(place, "llama"), table, "float32").passed
    first = int(table.targets[0])
    other = next(k for k in range(1, 6) if k != first)
    words = list(WORDS.tokens)
    words[first], words[other] = words[other], words[first]
    write_tokenizer(place, words)
    assert not judge(read_stored(place, "llama"), table, "float32").passed


@pytest.mark.parametrize(
    "settings",
    [
        {"do_sample": True, "temperature": 9.0},
        {"cache_implementation": "quantized"},
        {"penalty_alpha": 0.6, "top_k": 4},
    ],
)
def test_settings_of_generation_that_change_answers_are_refused(
    folder: Path, tmp_path: Path, settings: dict[str, object]
) -> None:
    place = tmp_path / "settings"
    shutil.copytree(folder, place)
    (place / "generation_config.json").write_text(json.dumps(settings))
    table = FactTable(CONTEXTS, np.array([1, 2, 3, 4, 5]), WORDS)
    with pytest.raises(CheckpointError, match=r"generation_config\.json"):
        judge(read_stored(place, "llama"), table, "float32")
