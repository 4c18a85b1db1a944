"""Questions to a model of keys and properties: `0041 name`, or a sentence that names both.

The last token of every context is a property, the name of a column; the tokens before it are the key. In a text the
property stands behind the key, and a question may also be put in words of one's own: `what is the name of 0041`. Which
words are the key is found out, never guessed: where several could be, the question is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rote.data.reading import Tokens
from rote.errors import UsageError
from rote.models.questions import Cutter, bare

__all__ = ["PropertyCutter"]

_FILLERS = """
a an and are at be by can could do does for from give has have how i in is it its me my of on please say show tell that
the there this to us was were what what's whats when where which who whose will with would you
"""
_QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'|\u201c([^\u201d]+)\u201d")
_SHOWN = 4
_LONGEST = 400
"""Words of a question; a text of more is no sentence that names a key."""


class PropertyCutter(Cutter):
    """Cuts questions into a key and a property."""

    def __init__(self, known: Mapping[str, int], tokens: Tokens, context: int, properties: Sequence[str]) -> None:
        super().__init__(known, tokens, context)
        self._properties = tuple(properties)
        self._key = Cutter(known, tokens, context - 1)

    def join(self, tokens: Sequence[str]) -> str:
        if self._tokens == "cells":
            return super().join(tokens)
        return f"{self._key.join(tokens[:-1])}\t{tokens[-1]}"

    def cut(self, words: Sequence[str]) -> list[str]:
        """The tokens of the key, and the property."""
        if len(words) > 1 and words[-1] in self._properties:
            parts = self._key.cut(words[:-1])
            if self._key.fits(parts):
                return [*parts, words[-1]]
        text = " ".join(words)
        behind = [name for name in self._properties if text.endswith((f" {name}", f"\t{name}"))]
        for name in sorted(behind, key=len, reverse=True):
            key = self._cut_key(text[: -len(name) - 1])
            if key is not None:
                return [*key, name]
        return self._understood(text)

    def _cut_key(self, text: str) -> list[str] | None:
        """The tokens of a text, if it can be a key."""
        stripped = text.strip()
        try:
            parts = self._key.cut([stripped]) if stripped else []
        except UsageError:
            # It can be cut in two ways, so it does not tell which key it is.
            return None
        return parts if parts and self._key.fits(parts) else None

    def _understood(self, text: str) -> list[str]:
        """A sentence that names a property and a key, in any order."""
        named = list(_mentions(text, self._properties))
        shown = ", ".join(self._properties[:_SHOWN]) + (", ..." if len(self._properties) > _SHOWN else "")
        if not named or len(text.split()) > _LONGEST:
            raise UsageError(
                f"this model knows {shown} of a key, and {text!r} names none of them; ask for one, as in "
                f"'KEY {self._properties[0]}' or '{self._properties[0]} of KEY'."
            )
        readings: dict[tuple[str, ...], str] = {}
        for name, start, end in named:
            for key, parts in self._keys(text[:start], text[end:]):
                readings.setdefault((*parts, name), f"{name} of {key}")
        if len(readings) == 1:
            return list(next(iter(readings)))
        if readings:
            ways = " or ".join(repr(way) for way in list(readings.values())[:_SHOWN])
            raise UsageError(f"{text!r} can be understood as {ways}; put the key in quotes, or ask 'KEY PROPERTY'.")
        asked = " or ".join(dict.fromkeys(name for name, _, _ in named))
        raise UsageError(
            f"{text!r} asks for {asked}, but no key can be told from the rest of it; write the key as the table has it."
        )

    def _keys(self, before: str, after: str) -> list[tuple[str, list[str]]]:
        """What could be the key in the words around a property; the longest readings without words that fill."""
        quoted = [next(part for part in match if part) for side in (before, after) for match in _QUOTED.findall(side)]
        if quoted:
            return [(text, parts) for text in quoted if (parts := self._cut_key(text)) is not None]
        spans: list[tuple[str, list[str]]] = []
        for side in (before, after):
            spans += self._spans(side)
        telling = [span for span in spans if not _fills(span[0])]
        return telling or spans

    def _spans(self, side: str) -> list[tuple[str, list[str]]]:
        """The longest runs of words that can be a key, those without words that fill at their ends first."""
        words = [word for word in re.split(r"\s+", side.strip()) if word]
        runs = []
        for start in range(len(words)):
            for end in range(len(words), start, -1):
                text = bare(" ".join(words[start:end]))
                if _fills(words[start]) != _fills(text) or _fills(words[end - 1]) != _fills(text):
                    continue
                parts = self._cut_key(text)
                if parts is not None:
                    runs.append((start, end, text, parts))
                    break
        longest = [a for a in runs if not any(b[:2] != a[:2] and b[0] <= a[0] and a[1] <= b[1] for b in runs)]
        return [(text, parts) for _, _, text, parts in longest]


def _mentions(text: str, properties: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Where properties are named as words of their own, large or small letters alike; only the longest at a place."""
    found = []
    for name in properties:
        for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE):
            found.append((name, match.start(), match.end()))
    for name, start, end in found:
        if not any(s <= start and end <= e and (s, e) != (start, end) for _, s, e in found):
            yield name, start, end


def _fills(text: str) -> bool:
    """Whether a text is made of words that only make a sentence."""
    return all(bare(word).lower() in _FILLERS.split() or not bare(word) for word in text.split())
