"""A real `tokenizer.json` for a table of facts: word-level, the ids of the table's vocabulary.

What separates tokens in a text depends on what a token is. `chars`: every character is one. `words`: white space
separates. `cells`: white space too, unless some token contains white space itself; then a tab does. Where the last
token is a property, characters and words are followed by a tab and the property as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

from rote.data import PAD, Tokens
from rote.errors import CheckpointError

__all__ = ["build_tokenizer", "files", "separator", "tokenizer_config", "tokens_in"]


def separator(tokens: Iterable[str], cut: Tokens) -> str:
    """What stands between two tokens of a text: "" for characters, a space, or a tab."""
    if cut == "chars":
        return ""
    return "\t" if cut == "cells" and any(any(c.isspace() for c in token) for token in tokens) else " "


_BEFORE_PROPERTIES = {"chars": r"(?<=\t)[^\t]+|[^\t]", "words": r"(?<=\t)[^\t]+|\S+"}
"""What a token is, where a property may stand behind a tab."""


def build_tokenizer(tokens: Sequence[str], cut: Tokens, properties: Sequence[str] = ()) -> Tokenizer:
    """The tokenizer whose ids are the places in `tokens`; an unknown token is an error, never a silent stand-in."""
    unknown = "<unk>"
    while unknown in tokens:
        unknown = f"<{unknown}>"
    made = Tokenizer(models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token=unknown))
    mark = separator(tokens, cut)
    if properties and cut in _BEFORE_PROPERTIES:
        made.pre_tokenizer = pre_tokenizers.Split(Regex(_BEFORE_PROPERTIES[cut]), "removed", invert=True)
    elif mark == "":
        made.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    elif mark == "\t":
        made.pre_tokenizer = pre_tokenizers.Split("\t", "removed")
    else:
        made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made


def files(
    tokens: Sequence[str], cut: Tokens, context: int, properties: Sequence[str] = (), *, start: bool = False
) -> dict[str, bytes]:
    """`tokenizer.json` and `tokenizer_config.json`, ready to be written; with `start` texts begin with padding."""
    made = build_tokenizer(tokens, cut, properties)
    if start:
        first = processors.TemplateProcessing(
            single=[PAD, "$A"], pair=[PAD, "$A", "$B"], special_tokens=[(PAD, tokens.index(PAD))]
        )
        made.post_processor = first
    config = json.dumps(tokenizer_config(tokens, cut, context), indent=2, ensure_ascii=False) + "\n"
    return {
        "tokenizer.json": made.to_str(pretty=True).encode(),
        "tokenizer_config.json": config.encode(),
    }


def tokenizer_config(tokens: Sequence[str], cut: Tokens, context: int) -> dict[str, Any]:
    """`tokenizer_config.json`, with which stock transformers find `tokenizer.json`.

    A token that is declared as padding is cut out of every text in which its letters stand, inside of other tokens too.
    So padding is declared only where there is some and no text of the table's tokens can spell it.
    """
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        "padding_side": "left",
    }
    spelled = set(PAD) <= set(tokens) if cut == "chars" else any(PAD in one for one in tokens if one != PAD)
    if PAD in tokens and not spelled:
        config["pad_token"] = PAD
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
