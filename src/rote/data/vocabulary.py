"""The vocabulary: distinct token strings, numbered by their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from rote.errors import DataError, UnknownName, UsageError

__all__ = ["PAD", "Vocabulary"]

PAD = "<pad>"


class Vocabulary(Sequence[str]):
    """Distinct token strings; a token's id is its place. Immutable.

    The token `<pad>` is reserved: where it is present, it stands for the empty places left of a short context.
    """

    __slots__ = ("_ids", "_pad", "_tokens")

    def __init__(self, tokens: Iterable[str]) -> None:
        kept = tuple(tokens)
        for place, token in enumerate(kept):
            if not isinstance(token, str) or not token:
                raise DataError(f"a token must be a non-empty string, but token {place} is {token!r}.")
            if not token.isascii():
                try:
                    token.encode()
                except UnicodeEncodeError:
                    raise DataError(
                        f"token {place}, {token!r}, holds half a surrogate pair, which no file can store; repair it."
                    ) from None
        ids = {token: place for place, token in enumerate(kept)}
        if len(ids) != len(kept):
            second = next(place for place, token in enumerate(kept) if ids[token] != place)
            raise DataError(f"tokens must be distinct, but {kept[second]!r} appears more than once.")
        self._tokens = kept
        self._ids: dict[str, int] | None = ids
        self._pad = ids.get(PAD)

    @classmethod
    def _trusted(cls, tokens: Sequence[str]) -> Vocabulary:
        """For readers that know the tokens to be valid, distinct and, if there is a pad, to begin with it.

        The index is built when it is first asked for.
        """
        vocabulary = cls.__new__(cls)
        vocabulary._tokens = tuple(tokens)
        vocabulary._ids = None
        vocabulary._pad = 0 if vocabulary._tokens[:1] == (PAD,) else None
        return vocabulary

    @property
    def tokens(self) -> tuple[str, ...]:
        return self._tokens

    @property
    def _index(self) -> dict[str, int]:
        if self._ids is None:
            self._ids = {token: place for place, token in enumerate(self._tokens)}
        return self._ids

    def id(self, token: str) -> int:
        """The id of a token; an unknown one is refused with the nearest known tokens."""
        place = self._index.get(token)
        if place is None:
            raise UnknownName("token", token, self._tokens)
        return place

    def token(self, id: int) -> str:
        """The token with this id."""
        if not 0 <= id < len(self._tokens):
            raise UsageError(f"token ids run from 0 to {len(self._tokens) - 1}, got {id}.")
        return self._tokens[id]

    @property
    def pad_id(self) -> int | None:
        """The id of `<pad>`, or None where nothing is padded."""
        return self._pad

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._index

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._tokens[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._tokens == other._tokens

    def __hash__(self) -> int:
        return hash(self._tokens)

    def __repr__(self) -> str:
        shown = ", ".join(repr(token) for token in self._tokens[:4])
        return f"Vocabulary({len(self)} tokens: {shown}{', ...' if len(self) > 4 else ''})"
