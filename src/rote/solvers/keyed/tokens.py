"""What the first added layer knows of a text: codes of the tokens in a window, and a hash of them, in signs.

A window is the token at hand and those before it, back to the nearest token at which a key may start; what lies beyond
repeats that token. So a window depends on nothing before the key. Each bit of the hash is a product of three signs, one
of the token at hand and two of other places of the window: a parity, which a change of any of them turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

__all__ = ["Codebook", "code_numbers", "codebook", "mended_book", "sign_count", "window"]

_SELDOM = 3
_MENDED = 100
"""How many bits of the hash are exchanged at the most."""
Ints = np.ndarray
Floats = np.ndarray
_FACTORS = 2
"""Signs that are multiplied for a bit of the hash, beside one of the token at hand."""


@dataclass(frozen=True)
class Codebook:
    """Signs of every token, which tokens are starts, and which signs of which place make each bit of the hash."""

    codes: Floats
    """(vocabulary, bits): plus and minus one; all minus one is the code of tokens that no key has."""
    starts: Ints
    """Whether a key may start at a token, or a token is in no key."""
    reach: int
    """Places of a window."""
    picks: Ints
    """(hash bits, signs a bit, 2): place and number of the sign."""
    edges: Ints = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """Tokens behind which any token starts anew, whatever it is; none if a key is stored in each of its forms."""

    @property
    def bits(self) -> int:
        return int(self.codes.shape[1])

    @property
    def hashed(self) -> int:
        return int(self.picks.shape[0])

    def features(self, windows: Ints) -> Floats:
        """Signs of the token at hand, then the hash."""
        hashes = [self.bit(windows, k) for k in range(self.hashed)]
        return np.concatenate([self.codes[windows[:, 0]], np.stack(hashes, 1)], 1)

    def bit(self, windows: Ints, k: int) -> Floats:
        """One bit of the hash."""
        product: Floats = self._chosen(windows, k).prod(1)
        return product

    def _chosen(self, windows: Ints, k: int) -> Floats:
        return np.stack([self.codes[windows[:, place], sign] for place, sign in self.picks[k]], 1)

    def windows(self, texts: Sequence[Sequence[int]]) -> Ints:
        """The windows at the end of every text."""
        return np.array([window(ids, self, self.reach) for ids in texts]).reshape(len(texts), self.reach)


def window(ids: Sequence[int], book: Codebook, reach: int) -> list[int]:
    """The last token and those before it, newest first; from the nearest start on the same one again and again."""
    at = len(ids) - 1
    tokens = [ids[at]]
    while len(tokens) < reach:
        if at and not book.starts[ids[at]] and not (len(book.edges) and book.edges[ids[at - 1]]):
            at -= 1
        tokens.append(ids[at])
    return tokens


def sign_count(words: int) -> int:
    """Signs that give so many words codes that differ in two signs or more, and one that none of them has."""
    return max(4, int(np.ceil(np.log2(words + 2)))) + 1


def code_numbers(bits: int) -> Ints:
    """Numbers of codes: those with an even number of ones, so that no two of them are neighbours; zero is left out."""
    numbers = np.arange(1, 1 << bits)
    even: Ints = numbers[np.array([int(n).bit_count() % 2 == 0 for n in numbers])]
    return even


def codebook(
    names: Sequence[str],
    inside: Sequence[int],
    first: Sequence[int],
    following: Sequence[int],
    spoken: Sequence[int],
    *,
    reach: int,
    hashed: int,
    rng: np.random.Generator,
    merged: bool = False,
) -> Codebook:
    """Codes for tokens `inside` of keys and for those `spoken` in answers.

    `names` are the tokens with any mark of a space removed, so that a token with a space before it has the code of
    the one without. `first` are tokens at which keys start, `following` those that go on with a word. If forms of keys
    are `merged`, a token starts also behind one that is in no key.
    """
    coded = dict.fromkeys(names[i] for i in (*sorted(inside), *sorted(spoken)) if names[i])
    bits = sign_count(len(coded))
    numbers = rng.permutation(code_numbers(bits))[: len(coded)]
    words = dict(zip(coded, numbers, strict=True))
    marked = {names[i] for i in inside}
    values = np.array([words.get(name, 0) for name in names])
    codes = np.where(values[:, None] >> np.arange(bits) & 1, 1.0, -1.0)
    starts = np.array([name not in marked or not name for name in names])
    starts[list(following)] = False
    # A space that is a token by itself may be a part of keys.
    starts[list(inside)] = False
    starts[list(first)] = True
    edges = starts.copy() if merged else np.zeros(0, dtype=bool)
    edges[list(inside) if merged else []] = False
    return Codebook(codes, starts, reach, _picks(reach, bits, hashed, rng), edges)


def mended_book(
    book: Codebook, windows: Ints, answers: Sequence[tuple[int, ...]], rng: np.random.Generator
) -> Codebook | None:
    """The book with other bits of the hash, one by one, until windows with different answers have different features.

    None if that does not come about soon. Windows of the same codes cannot be told apart, and the first of them counts.
    """
    codes = np.packbits(book.codes[windows].reshape(len(windows), -1) > 0, axis=1)
    _, first = np.unique(codes, axis=0, return_index=True)
    some = windows[np.sort(first)]
    number = {answer: i for i, answer in enumerate(dict.fromkeys(answers))}
    says = np.array([number[answers[i]] for i in np.sort(first)])
    signs = book.features(some) > 0

    def alike(signs: Ints) -> Ints:
        rows = np.packbits(signs, axis=1)
        order = np.lexsort(rows.T)
        same = (rows[order][1:] == rows[order][:-1]).all(1) & (says[order][1:] != says[order][:-1])
        return np.stack([order[1:][same], order[:-1][same]], 1)

    left = alike(signs)
    for _ in range(_MENDED):
        if not len(left):
            return book
        one, two = book.codes[some[left[int(rng.integers(len(left)))]]]
        k, apart = int(rng.integers(book.hashed)), np.argwhere(one != two)
        picks = book.picks.copy()
        picks[k] = _picks(book.reach, book.bits, 1, rng)[0]
        # A sign by which two of them differ, of the token at hand or of another place.
        place, sign = apart[int(rng.integers(len(apart)))]
        picks[k, -1 if place == 0 else 0] = place, sign
        other = replace(book, picks=picks)
        turned = signs.copy()
        turned[:, book.bits + k] = other.bit(some, k) > 0
        if len(now := alike(turned)) <= len(left):
            book, signs, left = other, turned, now
    return book if not len(left) else None


def _picks(reach: int, bits: int, hashed: int, rng: np.random.Generator) -> Ints:
    """Places and signs for every bit: all places as often as each other, no sign twice in one bit.

    The last of a bit is a sign of the token at hand.
    """
    # Two signs of one token, which short keys have at all places but the last, do not tell it from its opposite, so
    # that the token at hand takes its turn too, if seldom.
    rounds = -(-hashed * _FACTORS // max(1, reach - 1)) + 1
    first = [0 if reach > _FACTORS and i % _SELDOM else 1 for i in range(rounds)]
    places = np.concatenate([rng.permutation(np.arange(1 - with_own, reach)) for with_own in first])
    left = [list(rng.permutation(bits)) for _ in range(reach)]
    picks = np.zeros((hashed, _FACTORS + 1, 2), dtype=np.int64)
    at = 0
    for k in range(hashed):
        taken: set[int] = set()
        for i in range(_FACTORS + 1):
            place = 0
            if i < _FACTORS:
                # The next place that this bit does not have yet; exchanged, not skipped.
                free = (j for j in range(at, len(places)) if places[j] not in picks[k, :i, 0])
                ahead = next(free, at)
                places[[at, ahead]] = places[[ahead, at]]
                place = int(places[at])
                at += 1
            if not set(left[place]) - taken:
                left[place] = list(rng.permutation(bits))
            sign = next((s for s in left[place] if s not in taken), left[place][0])
            left[place].remove(sign)
            taken.add(sign)
            picks[k, i] = place, sign
    return picks
