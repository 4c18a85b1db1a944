"""What a GGUF file says about tokens: of a table of facts, or of a pretrained model's tokenizer.json.

llama.cpp has no word-level tokenizer, but it cuts texts at tokens that are `user defined` before anything else, the
longest first, and drops what it has no token for. So the tokens of contexts are user defined, and what separates them
(a space, a tab) is dropped. Answers that stand in no context are plain tokens, which no text is cut into.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote.errors import CheckpointError, UsageError
from rote.models import folders
from rote.models._gguf_pieces import piece_fields

__all__ = ["Tokens", "fact_tokens", "stock_tokens"]

_NORMAL, _CONTROL, _OWN, _UNUSED = 1, 3, 4, 5
_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_HEAD = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_CUTS = {
    ("ByteLevel",): "gpt-2",
    ("Digits", "ByteLevel"): "smollm",
    (_HEAD + r"\p{N}{1,3}" + _TAIL,): "llama-bpe",
    (_HEAD + r"\p{N}" + _TAIL,): "qwen2",
}
"""How a tokenizer.json cuts texts before merging, and llama.cpp's name for it."""


@dataclass(frozen=True)
class Pieces:
    """What else a tokenizer of SentencePiece has."""

    model: str
    scores: tuple[float, ...]
    unknown: int | None
    prefixed: bool
    """A text begins with a space even where it does not."""

    def write(self, writer: Any) -> None:
        writer.add_tokenizer_pre("default")
        writer.add_token_scores(list(self.scores))
        writer.add_add_space_prefix(self.prefixed)
        writer.add_add_eos_token(False)
        if self.unknown is not None:
            writer.add_unk_token_id(self.unknown)


@dataclass(frozen=True)
class Tokens:
    """The fields of a tokenizer, ready to be written."""

    texts: tuple[str, ...]
    kinds: tuple[int, ...]
    end: int
    start: int | None = None
    """The token that is put before every text."""
    cut: str = "gpt-2"
    merges: tuple[str, ...] = ("a b",)
    """llama.cpp wants at least one; what it makes need not be a token."""
    template: str | None = None
    pieces: Pieces | None = None
    """For tokenizers of SentencePiece, which have no merges."""

    @property
    def count(self) -> int:
        return len(self.texts)

    def write(self, writer: Any) -> None:
        writer.add_tokenizer_model("gpt2" if self.pieces is None else self.pieces.model)
        writer.add_token_list(list(self.texts))
        writer.add_token_types(list(self.kinds))
        if self.pieces is None:
            writer.add_tokenizer_pre(self.cut)
            writer.add_token_merges(list(self.merges))
        else:
            self.pieces.write(writer)
        writer.add_eos_token_id(self.end)
        writer.add_bos_token_id(self.end if self.start is None else self.start)
        writer.add_add_bos_token(self.start is not None)
        if self.template is not None:
            writer.add_chat_template(self.template)


def fact_tokens(
    vocabulary: Sequence[str], asked: Collection[int], answers: Collection[int], start: int | None = None
) -> Tokens:
    """The tokens of a table: those of contexts are `asked`, and every text begins with `start`.

    A token that is no answer ends texts, or one more does.
    """
    texts = [text if i in asked else _visible(text.encode()) for i, text in enumerate(vocabulary)]
    kinds = [_OWN if i in asked else _NORMAL for i in range(len(texts))]
    end = next((i for i in range(len(texts)) if i not in asked and i not in answers), None)
    end = next((i for i in range(len(texts)) if i not in answers), len(texts)) if end is None else end
    if end == len(texts):
        texts.append(_other("<end>", texts))
        kinds.append(_CONTROL)
    return Tokens(tuple(texts), tuple(kinds), end, start)


def stock_tokens(folder: Path, tokenizer: Any, end: int, vocab: int) -> Tokens:
    """The tokens of a tokenizer of bytes or of SentencePiece; `tokenizer` is the stock one of the same directory."""
    path = folder / "tokenizer.json"
    # The library makes the same record of a tokenizer.model.
    record = folders.read_json(path) if path.is_file() else json.loads(tokenizer.backend_tokenizer.to_str())
    try:
        return _stock_tokens(record, tokenizer, end, vocab, path)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is no tokenizer of this model ({error}); it was edited.") from None


def _stock_tokens(record: Mapping[str, Any], tokenizer: Any, end: int, vocab: int, path: Path) -> Tokens:
    model, cut, found = record.get("model"), _CUTS.get(_cut(record.get("pre_tokenizer"))), piece_fields(record)
    bytewise = isinstance(model, Mapping) and model.get("type") == "BPE" and not model.get("byte_fallback")
    if found is None and (not bytewise or cut is None):
        raise UsageError(
            f"{path} is neither a byte-level BPE tokenizer that cuts texts as GPT-2, SmolLM, Llama 3 or Qwen 2 do nor "
            "one of SentencePiece whose normaliser only marks spaces, and no other is written as GGUF."
        )
    assert isinstance(model, Mapping)
    texts = [_other(f"[unused {i}]", ()) for i in range(vocab)]
    kinds, scores = [_UNUSED] * vocab, [0.0] * vocab
    if found is None:
        for text, i in model["vocab"].items():
            texts[i], kinds[i] = text, _NORMAL
    else:
        for i, (text, score, kind) in found[1].items():
            texts[i], scores[i], kinds[i] = text, score, kind
    for one in record.get("added_tokens") or []:
        if found is None or one["id"] != found[2]:
            texts[one["id"]], kinds[one["id"]] = one["content"], _CONTROL if one["special"] else _OWN
    ids = list(tokenizer("a")["input_ids"])
    start = ids[0] if len(ids) > 1 and ids[0] == tokenizer.bos_token_id else None
    template = tokenizer.chat_template if isinstance(tokenizer.chat_template, str) else None
    if found is not None:
        prefixed = texts[ids[0 if start is None else 1]].startswith("▁")
        pieces = Pieces(found[0], tuple(scores), found[2], prefixed)
        return Tokens(tuple(texts), tuple(kinds), end, start, template=template, pieces=pieces)
    merges = [one if isinstance(one, str) else " ".join(one) for one in model["merges"]]
    return Tokens(tuple(texts), tuple(kinds), end, start, str(cut), tuple(merges) or ("a b",), template)


def _cut(record: Any) -> tuple[str, ...]:
    """The steps of a pre-tokenizer, each by its name or its pattern; steps that cut nothing are left out."""
    steps = record.get("pretokenizers", [record]) if isinstance(record, Mapping) else []
    said = []
    for step in steps:
        if step.get("type") == "Split":
            said.append(str(step["pattern"].get("Regex", step["pattern"].get("String"))))
        elif step.get("type") != "ByteLevel" or step.get("use_regex", True):
            said.append(str(step.get("type")) + ("" if step.get("individual_digits", True) else " in groups"))
    return tuple(said)


def _other(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name = f"<{name}>"
    return name


def _visible(content: bytes) -> str:
    """Bytes as the characters that stand for them in byte-level vocabularies, which GPT-2 introduced."""
    return "".join(_CHARACTERS[byte] for byte in content)


def _characters() -> dict[int, str]:
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(rest)}


_CHARACTERS = _characters()
