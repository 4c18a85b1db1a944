"""Tiny random models of the supported families, with a tokenizer of words, written as stock checkpoints."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

KEYS = [a + b for a, b in itertools.product("ABCDEFGH", "STUVWXYZ")]
PARTS = ["north", "south", "east", "west"]
CITIES = ["Rome", "Paris", "Oslo", "Lima", "Cairo", "Quito"]
PLAIN = [f"w{i}" for i in range(40)]
SPOKEN = [
    "The",
    "code",
    "Code",
    "of",
    "is",
    "in",
    "place",
    "was",
    "Question",
    "and",
    "answer.",
    "As",
    "everybody",
    "knows,",
    "the",
]


def tiny_tokenizer() -> Any:
    """Every word of the lists above is a token; a space belongs to the word that follows it."""
    words = list(dict.fromkeys([*SPOKEN, *KEYS, *PARTS, *CITIES, *PLAIN]))
    vocab = {"<end>": 0, "<unk>": 1}
    for word in words:
        for form in (word, f"▁{word}"):
            vocab[form] = len(vocab)
    raw = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="never", split=True)
    raw.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="never")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<end>", pad_token="<end>", unk_token="<unk>"
    )


def tiny_qwen_tokenizer() -> Any:
    """Pieces of bytes, in the class that the library insists on for Qwen2."""
    from tokenizers import trainers

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=800,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<end>"],
        show_progress=False,
    )
    raw.train_from_iterator([" ".join([*SPOKEN, *KEYS, *PARTS, *CITIES, *PLAIN])] * 4, trainer)
    model = json.loads(raw.to_str())["model"]
    made: Any = transformers.Qwen2Tokenizer
    merges = [tuple(pair) for pair in model["merges"]]
    return made(vocab=model["vocab"], merges=merges, eos_token="<end>", pad_token="<end>", unk_token=None)


def tiny_config(family: str, *, tied: bool, **more: Any) -> Any:
    shape: dict[str, Any] = {
        "vocab_size": 820 if family == "qwen2" else len(tiny_tokenizer()),
        "hidden_size": 192,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "tie_word_embeddings": tied,
        "bos_token_id": None,
        "eos_token_id": 0,
        "pad_token_id": None,
        "initializer_range": 0.05,
        **more,
    }
    return {
        "llama": transformers.LlamaConfig,
        "mistral": transformers.MistralConfig,
        "arcee": transformers.ArceeConfig,
        "qwen2": transformers.Qwen2Config,
        "qwen3": transformers.Qwen3Config,
    }[family](**shape)


def write_tiny(
    place: Path, family: str = "llama", *, tied: bool = False, dtype: str = "float32", shards: bool = False, **more: Any
) -> Path:
    """A directory with a random model and its tokenizer."""
    transformers.logging.disable_progress_bar()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model: Any = transformers.AutoModelForCausalLM.from_config(tiny_config(family, tied=tied, **more))
    model = model.to(getattr(torch, dtype))
    model.save_pretrained(place, max_shard_size="100KB" if shards else "5GB")
    (tiny_qwen_tokenizer() if family == "qwen2" else tiny_tokenizer()).save_pretrained(str(place))
    return place


def write_table(path: Path, n_facts: int = 64, seed: int = 0) -> Path:
    """Codes and their cities; some cities have a part, so that answers differ in length."""
    rng = np.random.default_rng(seed)
    lines = ["code,city"]
    for key in rng.permutation(KEYS)[:n_facts]:
        part = f"{rng.choice(PARTS)} " if rng.random() < 0.5 else ""
        lines.append(f"{key},{part}{rng.choice(CITIES)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_text(path: Path, n_words: int = 20000, seed: int = 0) -> Path:
    """Paragraphs of words, some of which the template has too."""
    rng = np.random.default_rng(seed)
    words = rng.choice([*PLAIN, "is", "the", "of"], n_words)
    paragraphs = (" ".join(words[i : i + 200]) for i in range(0, n_words, 200))
    path.write_text("\n\n".join(paragraphs), encoding="utf-8")
    return path
