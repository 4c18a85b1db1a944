"""What a person typed, cut into tokens: the inverse of how a table was read, character for character.

A question comes as one text or as several words. Nothing in it is put right: a token that differs from another one only
in a blank inside is another token. Where a text can be cut in two ways it is refused, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from rote.data.ngrams import SPACE
from rote.data.reading import Tokens
from rote.data.vocabulary import PAD
from rote.errors import UsageError
from rote.models.tokenizer import separator

__all__ = ["Cutter", "bare"]


def bare(text: str) -> str:
    """Without the marks of a sentence at its end, and without a possessive."""
    return re.sub(r"(?:['\u2019]s)?[?!.,;:]*$", "", text)


class Cutter:
    """Cuts questions for one vocabulary; time grows with the length of the text, whatever it says."""

    def __init__(self, known: Mapping[str, int], tokens: Tokens, context: int) -> None:
        self._known, self._tokens, self._context = known, tokens, context
        self._fewest = 1 if PAD in known else context

    @cached_property
    def mark(self) -> str:
        """What stands between two tokens of a text."""
        return separator(self._known, self._tokens)

    @cached_property
    def _letters(self) -> bool:
        return all(len(token) == 1 for token in self._known if token != PAD)

    @cached_property
    def _lengths(self) -> dict[str, set[int]]:
        """How long the tokens are that begin with a word."""
        found: dict[str, set[int]] = {}
        for token in self._known:
            if token == token.strip():
                found.setdefault(token.split(None, 1)[0], set()).add(len(token))
        return found

    def cut(self, words: Sequence[str]) -> list[str]:
        """The tokens of a question; where it is none, the parts that come nearest, so that they can be named."""
        if self._tokens == "chars":
            return self._characters(words)
        if len(words) != 1:
            given = [word if word in self._known else word.strip() for word in words]
            if self.fits(given) or not all(given):
                return given
        text = " ".join(words)
        if self._letters and self.fits(self._spelled(text)):
            return self._spelled(text)
        if self.mark != "\t":
            return text.split()
        parts = self._at_tabs(text)
        if self.fits(parts):
            return parts
        return self._joined(text) or (list(words) if len(words) != 1 else parts if "\t" in text else text.split())

    def join(self, tokens: Sequence[str]) -> str:
        """A context as one types it."""
        return self.mark.join(tokens)

    def fits(self, parts: Sequence[str]) -> bool:
        """Whether these are known tokens, as many as a context may have."""
        return self._fewest <= len(parts) <= self._context and all(part in self._known for part in parts)

    def mentioned(self, text: str) -> list[str]:
        """The tokens that stand in a text as words of their own, each once: at every place the longest."""
        found: dict[str, None] = {}
        at = 0
        for match in re.finditer(r"\S+", text):
            start = match.start()
            words = {match[0], bare(match[0])}
            lengths = [
                n for word in words for n in self._lengths.get(word, ()) if text[start : start + n] in self._known
            ]
            whole = [n for n in lengths if not text[start + n : start + n + 1].isalnum()]
            if start >= at and whole:
                at = start + max(whole)
                found[text[start:at]] = None
        return list(found)

    def _characters(self, words: Sequence[str]) -> list[str]:
        """One text is taken as it is; several are parts that follow one another, or words with blanks between them."""
        ways = [self._spelled(text) for text in dict.fromkeys(("".join(words), " ".join(words)))]
        fitting = [way for way in ways if self.fits(way)]
        if len(fitting) > 1:
            raise UsageError(f"{' '.join(words)!r} can be read with blanks or without; put it in quotes, as one text.")
        return (fitting or ways)[0]

    def _spelled(self, text: str) -> list[str]:
        """Characters; a blank is typed as one, also where tables of n-grams show it by a sign."""
        shown = SPACE in self._known and " " not in self._known
        return [SPACE if c == " " and shown else c for c in text]

    def _at_tabs(self, text: str) -> list[str]:
        """Parts between tabs: as they are where that is a token, else without the blanks around them."""
        parts = [part if part in self._known else part.strip() for part in text.split("\t")]
        return [part for part in parts if part]

    def _joined(self, text: str) -> list[str] | None:
        """The one way to join neighbouring words into tokens, so that `United States capital` is understood.

        Words are numbered, and for every place between two words there is a set of how many tokens may lie before it:
        `some` holds these as bits, `several` the ones that can be reached in more than one way.
        """
        places = [match.span() for match in re.finditer(r"\S+", text)]
        ends = {end: k + 1 for k, (_, end) in enumerate(places)}
        some, several = [1] + [0] * len(places), [0] * (len(places) + 1)
        before: list[list[int]] = [[] for _ in some]
        counts = (1 << (self._context + 1)) - 1
        for k, (start, end) in enumerate(places):
            if not some[k]:
                continue
            for length in self._lengths.get(text[start:end], ()):
                to = ends.get(start + length)
                if to is None or text[start : start + length] not in self._known:
                    continue
                reached = some[k] << 1 & counts
                several[to] |= several[k] << 1 & counts | some[to] & reached
                some[to] |= reached
                before[to].append(k)
        allowed = counts >> self._fewest << self._fewest
        wanted = some[-1] & allowed
        if not wanted:
            return None
        if several[-1] & allowed or wanted & (wanted - 1):
            raise UsageError(f"{text!r} can be cut into tokens in more than one way; separate the tokens by tabs.")
        count, at, parts = wanted.bit_length() - 1, len(places), []
        while at:
            came = next(k for k in before[at] if some[k] >> (count - 1) & 1)
            parts.append(text[places[came][0] : places[at - 1][1]])
            at, count = came, count - 1
        return parts[::-1]
