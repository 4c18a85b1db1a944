"""What a GGUF file says about tokens: of a table of facts, or of a pretrained model's tokenizer.json.

llama.cpp has no word-level tokenizer, but it cuts texts at tokens that are `user defined` before anything else, the
longest first, and drops what it has no token for. So the tokens of contexts are user defined, and what separates them
(a space, a tab) is dropped. Answers that stand in no context are plain tokens, which no text is cut into.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote.errors import UsageError
from rote.models import folders

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

    @property
    def count(self) -> int:
        return len(self.texts)

    def write(self, writer: Any) -> None:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(self.cut)
        writer.add_token_list(list(self.texts))
        writer.add_token_types(list(self.kinds))
        writer.add_token_merges(list(self.merges))
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
    """The tokens of a byte-level BPE tokenizer; `tokenizer` is the stock one of the same directory."""
    record = folders.read_json(folder / "tokenizer.json")
    model = record.get("model")
    cut = _CUTS.get(_cut(record.get("pre_tokenizer")))
    if not isinstance(model, Mapping) or model.get("type") != "BPE" or model.get("byte_fallback") or cut is None:
        raise UsageError(
            f"{folder / 'tokenizer.json'} is not a byte-level BPE tokenizer that cuts texts as GPT-2, SmolLM, Llama 3 "
            "or Qwen 2 do, and no other is written as GGUF."
        )
    texts = [_other(f"[unused {i}]", ()) for i in range(vocab)]
    kinds = [_UNUSED] * vocab
    for text, i in model["vocab"].items():
        texts[i], kinds[i] = text, _NORMAL
    for one in record.get("added_tokens") or []:
        texts[one["id"]], kinds[one["id"]] = one["content"], _CONTROL if one["special"] else _OWN
    merges = [one if isinstance(one, str) else " ".join(one) for one in model["merges"]]
    first = list(tokenizer("a")["input_ids"])
    start = first[0] if len(first) > 1 and first[0] == tokenizer.bos_token_id else None
    template = tokenizer.chat_template if isinstance(tokenizer.chat_template, str) else None
    return Tokens(tuple(texts), tuple(kinds), end, start, cut, tuple(merges) or ("a b",), template)


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
