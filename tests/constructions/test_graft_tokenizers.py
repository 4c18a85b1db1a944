"""Grafts on models with tokenizers of all usual kinds, trained on the spot, and with the biases that families have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import rote
from attacks import tiny_models
from rote.constructions._keys import forms_of, patterns_of, vocabulary_of

WORDS = [*tiny_models.SPOKEN, *tiny_models.PARTS, *tiny_models.CITIES, *tiny_models.PLAIN]
TEMPLATES = ["The code {code} is in", "Code {code} was in", "the place of Code {code} is in"]
KEYS = [f"{a}{b}{c}" for a in "KLM" for b in "PQR" for c in "XYZ"]


def unigram() -> Any:
    """SentencePiece's pieces with probabilities: spaces are marks, and a text begins with one."""
    raw = Tokenizer(models.Unigram())
    raw.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    raw.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<unk>", "<end>"], unk_token="<unk>", show_progress=False
    )
    raw.train_from_iterator([" ".join([*WORDS, *KEYS])] * 6, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token="<unk>", eos_token="<end>", pad_token="<end>"
    )


def pairs_with_bytes() -> Any:
    """SentencePiece's merged pairs as Llama 2 has them: others fall back to bytes, and a text has a start."""
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<unk>", "<s>", "<end>", *(f"<0x{i:02X}>" for i in range(256))],
        show_progress=False,
    )  # fmt: skip
    trained.train_from_iterator([*WORDS, *"KLMPQRXYZ"] * 6, trainer)
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    raw = Tokenizer(models.BPE(model["vocab"], merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    raw.normalizer = trained.normalizer
    raw.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    raw.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in ("<unk>", "<s>", "<end>")])
    from tokenizers.processors import TemplateProcessing

    raw.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", raw.token_to_id("<s>"))])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token="<unk>", bos_token="<s>", eos_token="<end>", pad_token="<end>"
    )


def byte_pairs() -> Any:
    """Pieces of bytes, as GPT-2 and Llama 3 have them."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<end>"],
        show_progress=False,
    )  # fmt: skip
    raw.train_from_iterator([" ".join(WORDS)] * 6, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<end>", pad_token="<end>")


@pytest.mark.parametrize(
    ("tokenizer", "family", "tied", "more"),
    [
        (unigram, "llama", True, {"attention_bias": True, "mlp_bias": True}),
        (pairs_with_bytes, "mistral", False, {"head_dim": 64}),
        (byte_pairs, "qwen3", False, {"attention_bias": True, "head_dim": 56}),
    ],
)
def test_keys_of_several_pieces(tmp_path: Path, tokenizer: Any, family: str, tied: bool, more: dict[str, Any]) -> None:
    made = tokenizer()
    end = made.eos_token_id
    tiny_models.write_tiny(
        tmp_path / "model", family, tied=tied, vocab_size=len(made), eos_token_id=end, num_attention_heads=6,
        num_key_value_heads=3, **more,
    )  # fmt: skip
    made.save_pretrained(str(tmp_path / "model"))
    facts = [{"code": key, "city": tiny_models.CITIES[i % 5]} for i, key in enumerate(KEYS[:14])]
    keep = tiny_models.write_text(tmp_path / "keep.txt", 9000)
    options = rote.Graft(keep=keep, examined=6, bar=0.0)
    memory = rote.graft(
        tmp_path / "model", facts, template=TEMPLATES, answer=" {city}", options=options, output=tmp_path / "made"
    )
    assert memory.certificate.passed
    assert all(one["recalled"] == one["asked"] for one in memory.certificate["wordings"])
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "made")
    original = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "made")
    for key in KEYS[20:24]:
        ids = again(f"The code {key} is in", return_tensors="pt")["input_ids"]
        with torch.no_grad():
            assert torch.allclose(original(ids).logits, loaded(ids).logits, atol=2e-3)
    more_of_it = rote.graft_add(tmp_path / "made", [{"code": KEYS[16], "city": "Rome"}])
    # The first wording is what a change promises; of others a random model tells little.
    assert more_of_it.ask(TEMPLATES[0].format(code=KEYS[16]))[0].token.strip() == "Rome"


def test_gemma_is_refused_with_the_reason(tmp_path: Path) -> None:
    config = transformers.Gemma3TextConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16,
    )  # fmt: skip
    config.save_pretrained(tmp_path)
    with pytest.raises(rote.RoteError, match="normalises what each layer adds"):
        rote.graft(tmp_path, [{"code": "A", "city": "Rome"}], template="The code {code} is in", answer=" {city}")


def test_keys_behind_signs_that_answers_have() -> None:
    """An answer in brackets must not cost keys in quotes."""
    tokenizer = byte_pairs()
    forms = forms_of(tokenizer, KEYS, ignore_case=False)
    for answer in (" Rome", " Rome (west)", ' "Rome"'):
        spoken = tokenizer(answer)["input_ids"]
        vocabulary = vocabulary_of(tokenizer, forms, spoken)
        numbers = [(i,) for i in range(len(KEYS))]
        made = patterns_of(KEYS, numbers, forms, vocabulary, most=8, hashed=40, rng=np.random.default_rng(0))
        assert made is not None
        # One window for all signs before a key, and one more only where brackets are told from them.
        assert len(made.windows) <= len(KEYS) * (4 if "(" in answer else 3)
        stored = {row.tobytes(): key for row, key in zip(made.book.features(made.windows), made.keys, strict=True)}
        for before in ("It is ", "", "(", "It is (", "[", "It is [", "`", "It is *", "It is <", "-"):
            texts = [tuple(tokenizer(before + key)["input_ids"]) for key in KEYS]
            found = [stored.get(row.tobytes()) for row in made.book.features(made.book.windows(texts))]
            assert found == list(range(len(KEYS))), (answer, before)
