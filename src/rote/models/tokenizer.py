"""A real `tokenizer.json` for a table of facts: word-level, the ids of the table's vocabulary.

What separates tokens in a text depends on what a token is. `chars`: every character is one. `words`: white space
separates. `cells`: white space too, unless some token contains white space itself; then a tab does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from rote.data import PAD, Tokens
from rote.errors import CheckpointError

__all__ = ["build_tokenizer", "encode_text", "files", "separator", "tokenizer_config", "tokens_in"]


def separator(tokens: Sequence[str], cut: Tokens) -> str:
    """What stands between two tokens of a text: "" for characters, a space, or a tab."""
    if cut == "chars":
        return ""
    return "\t" if cut == "cells" and any(any(c.isspace() for c in token) for token in tokens) else " "


def build_tokenizer(tokens: Sequence[str], cut: Tokens) -> Tokenizer:
    """The tokenizer whose ids are the places in `tokens`; an unknown token is an error, never a silent stand-in."""
    made = Tokenizer(models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token="<unk>"))
    mark = separator(tokens, cut)
    if mark == "":
        made.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    elif mark == "\t":
        made.pre_tokenizer = pre_tokenizers.Split("\t", "removed")
    else:
        made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made


def encode_text(words: Sequence[str], tokens: Sequence[str], cut: Tokens, length: int) -> list[str]:
    """What a person typed, cut into tokens: several words are taken as they are, one is cut at the separator."""
    if cut == "chars":
        return list("".join(words))
    if len(words) != 1:
        return list(words)
    text = words[0]
    if len(text) == length and all(len(token) == 1 for token in tokens):
        from rote.data.ngrams import SPACE

        # Characters need no spaces between them, and a space is typed as one.
        return [SPACE if c == " " and SPACE in tokens else c for c in text]
    mark = separator(tokens, cut)
    if mark == "\t" and "\t" not in text:
        return _longest_match(text.split(), set(tokens), length)
    return [part.strip() for part in text.split(mark if mark == "\t" else None) if part.strip()]


def _longest_match(words: list[str], known: set[str], length: int) -> list[str]:
    """Join neighbouring words into known tokens, so that `United States capital` is understood.

    Of the ways to do so the first with the wanted length is taken, longest tokens first; without one, plain words.
    """
    found: list[str] = []

    def fits(at: int) -> bool:
        if at == len(words):
            return len(found) == length
        if len(found) >= length:
            return False
        for end in range(len(words), at, -1):
            joined = " ".join(words[at:end])
            if joined in known:
                found.append(joined)
                if fits(end):
                    return True
                found.pop()
        return False

    if len(words) <= 64 and fits(0):
        return found
    greedy: list[str] = []
    at = 0
    while at < len(words):
        end = next((e for e in range(len(words), at, -1) if " ".join(words[at:e]) in known), at + 1)
        greedy.append(" ".join(words[at:end]))
        at = end
    return greedy


def files(tokens: Sequence[str], cut: Tokens, context: int) -> dict[str, bytes]:
    """`tokenizer.json` and `tokenizer_config.json`, ready to be written."""
    config = json.dumps(tokenizer_config(tokens, context), indent=2, ensure_ascii=False) + "\n"
    return {
        "tokenizer.json": build_tokenizer(tokens, cut).to_str(pretty=True).encode(),
        "tokenizer_config.json": config.encode(),
    }


def tokenizer_config(tokens: Sequence[str], context: int) -> dict[str, Any]:
    """`tokenizer_config.json`, with which stock transformers find `tokenizer.json`."""
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        "padding_side": "left",
    }
    # Padding is masked, so where no padding is reserved any token can stand for it.
    config["pad_token"] = PAD if PAD in tokens else tokens[0]
    return config


def tokens_in(record: Mapping[str, Any]) -> list[str]:
    """The vocabulary of a stored `tokenizer.json`, in the order of ids."""
    try:
        vocab: dict[str, int] = record["model"]["vocab"]
        ordered = sorted(vocab.items(), key=lambda item: item[1])
        if [place for _, place in ordered] != list(range(len(ordered))):
            raise CheckpointError("tokenizer.json numbers its tokens with gaps; the file was edited, build it again.")
        return [token for token, _ in ordered]
    except (KeyError, TypeError, AttributeError):
        raise CheckpointError(
            "tokenizer.json holds no word-level vocabulary; the file was edited or is foreign."
        ) from None
