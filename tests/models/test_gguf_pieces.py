"""Tokenizers of SentencePiece in GGUF files: llama.cpp cuts texts as transformers do, and a graft keeps its facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import rote
from attacks import tiny_models
from rote.data.stock import load_tokenizer
from rote.errors import RoteError
from rote.models._gguf import write_gguf
from rote.models._gguf_tokens import stock_tokens
from rote.referee.llama_cpp import LlamaCpp

WORDS = [" ".join([*tiny_models.SPOKEN, *tiny_models.KEYS, *tiny_models.PARTS, *tiny_models.CITIES])] * 4
TEXTS = ["The code AS is in", "w12345  x", "can't\n\n stop", "ÄÖ the 日本", "everybody knows, the  place"]


def joined(*, prefixed: bool) -> Any:
    """Pieces that are joined in pairs, with bytes as a last resort: as Llama 2 has it, or without a space in front."""
    raw = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    raw.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    first = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    raw.train_from_iterator(WORDS, trainers.BpeTrainer(vocab_size=700, special_tokens=first, show_progress=False))
    record = json.loads(raw.to_str())
    record["added_tokens"] = record["added_tokens"][:3]
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    back = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if prefixed:
        record["pre_tokenizer"] = None
        record["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, space]}
        back.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    else:
        never = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": False}
        record["pre_tokenizer"] = never
    record["decoder"] = {"type": "Sequence", "decoders": back}
    raw = Tokenizer.from_str(json.dumps(record))
    if prefixed:
        raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def likeliest() -> Any:
    """Pieces with probabilities, and a text is cut in the likeliest way."""
    raw = Tokenizer(models.Unigram())
    raw.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    raw.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=250, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False
    )
    raw.train_from_iterator(WORDS, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="</s>", unk_token="<unk>")


KINDS = {"llama 2": lambda: joined(prefixed=True), "no prefix": lambda: joined(prefixed=False), "unigram": likeliest}


def tiny(place: Path, kind: str, **more: Any) -> Path:
    tiny_models.write_tiny(place, "llama", tied=True, vocab_size=720, **{"eos_token_id": 2, **more})
    (place / "tokenizer.json").unlink()
    KINDS[kind]().save_pretrained(str(place))
    return place


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_cut_as_transformers_cut_them(kind: str, tmp_path: Path) -> None:
    place, file = tiny(tmp_path / "model", kind), tmp_path / "m.gguf"
    tokenizer = load_tokenizer(place)
    tokens = stock_tokens(place, tokenizer, 2, 720)
    assert tokens.pieces is not None and tokens.pieces.prefixed == (kind != "no prefix")
    assert (tokens.start == 1) == (kind == "llama 2")
    write_gguf(file, place, tokens, "F32", notes={})
    with LlamaCpp(file, 256) as runtime:
        for text in TEXTS:
            assert runtime.complete([text], 1) and runtime.tokens == len(tokenizer(text)["input_ids"]), text


@pytest.mark.parametrize("kind", KINDS)
def test_a_graft_on_a_model_with_pieces_keeps_its_facts(kind: str, tmp_path: Path) -> None:
    model, facts = tiny(tmp_path / "model", kind, initializer_range=0.05), tmp_path / "facts.csv"
    # Unigrams of so few texts are single letters in part, and a letter may stand in an answer only so often.
    rows = [f"{key},{tiny_models.CITIES[i % 3]}\n" for i, key in enumerate(tiny_models.KEYS[:16])]
    facts.write_text("code,city\n" + "".join(rows), encoding="utf-8")
    options = rote.Graft(keep=tiny_models.write_text(tmp_path / "keep.txt", 6000), examined=4, bar=0.0)
    memory = rote.graft(model, facts, template="The code {code} is in", answer=" {city}", options=options)
    assert memory.certificate.passed
    record = rote.export(memory, tmp_path / "m.gguf", memory.table(), form="F16")
    assert (record["n_facts"], record["n_failed"], record["written"]) == (16, 0, True)


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        ({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}, "neither a byte-level BPE"),
        ({"normalizer": {"type": "Lowercase"}, "pre_tokenizer": None}, "neither a byte-level BPE"),
        ({"added_tokens": [{"id": 5000, "content": "x", "special": True}]}, "it was edited"),
        ({"model": {"type": "BPE", "byte_fallback": True, "vocab": {"a": 99999}, "merges": []}}, "it was edited"),
    ],
)
def test_other_tokenizers_are_refused(edit: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    tokenizer = joined(prefixed=False)
    tokenizer.save_pretrained(str(tmp_path))
    record = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    (tmp_path / "tokenizer.json").write_text(json.dumps({**record, **edit}), encoding="utf-8")
    with pytest.raises(RoteError, match=sentence):
        stock_tokens(tmp_path, tokenizer, 2, 720)
