"""Tokenizers of SentencePiece in GGUF files: pieces with scores, a mark for the space, bytes as a last resort.

llama.cpp has two: "llama" joins neighbours to the piece with the best score, "t5" looks for the likeliest division of
the whole text. A tokenizer.json of the first kind lists which pieces are joined, and in which order, so a piece's score
is that of the first pair that makes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["piece_fields"]

_NORMAL, _UNKNOWN, _BYTE = 1, 2, 6
_MARK = "▁"
_RARE = -1e6
"""The score of a piece that no pair makes: a character, which is there already."""


def piece_fields(record: Mapping[str, Any]) -> tuple[str, dict[int, tuple[str, float, int]], int | None] | None:
    """(llama.cpp's name of the tokenizer, {id: (text, score, kind)}, id of the unknown token) of a tokenizer.json.

    None for any other kind of tokenizer.
    """
    model = record.get("model")
    if not isinstance(model, Mapping) or not _marks_spaces(record):
        return None
    if model.get("type") == "BPE" and model.get("byte_fallback"):
        rank: dict[str, int] = {}
        for i, pair in enumerate(model["merges"]):
            rank.setdefault("".join(pair.split(" ") if isinstance(pair, str) else pair), i)
        scores = {text: -float(rank[text]) if text in rank else _RARE for text in model["vocab"]}
        unknown = model["vocab"].get(model.get("unk_token"))
        rows = [(i, text, scores[text]) for text, i in model["vocab"].items()]
        return "llama", _with_kinds(rows, unknown), unknown
    if model.get("type") == "Unigram" and not model.get("byte_fallback") and not _charsmap(record.get("normalizer")):
        unknown = model.get("unk_id")
        rows = [(i, str(text), float(score)) for i, (text, score) in enumerate(model["vocab"])]
        return "t5", _with_kinds(rows, unknown), unknown
    return None


def _with_kinds(rows: list[tuple[int, str, float]], unknown: int | None) -> dict[int, tuple[str, float, int]]:
    def kind(i: int, text: str) -> int:
        if i == unknown:
            return _UNKNOWN
        return _BYTE if re.fullmatch(r"<0x[0-9A-F]{2}>", text) else _NORMAL

    return {i: (text, score, kind(i, text)) for i, text, score in rows}


def _marks_spaces(record: Mapping[str, Any]) -> bool:
    """Whether texts are cut at nothing but the mark that spaces become, in one of the two ways to write that down."""
    before, normal = record.get("pre_tokenizer"), record.get("normalizer")
    if isinstance(before, Mapping):
        return before.get("type") == "Metaspace" and before.get("replacement") == _MARK
    steps = normal.get("normalizers", [normal]) if isinstance(normal, Mapping) else []
    return {"type": "Replace", "pattern": {"String": " "}, "content": _MARK} in steps


def _charsmap(record: Any) -> bool:
    """Whether characters are replaced by others before texts are cut."""
    steps = record.get("normalizers", [record]) if isinstance(record, Mapping) else []
    return any(step.get("type") not in ("Replace", "Prepend") for step in steps)
