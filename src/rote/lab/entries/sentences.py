"""Sentences from templates and numbers: what was not measured is a dash, never a guess."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

from rote.errors import DataError

__all__ = ["fill"]


class _Missing:
    def __format__(self, spec: str) -> str:
        return "–"


class _Filler(string.Formatter):
    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        value = kwargs.get(str(key))
        return _Missing() if value is None else value


def fill(template: str, numbers: Mapping[str, Any]) -> str:
    """`{name:.3g}` becomes the number of that name."""
    try:
        return _Filler().vformat(template, (), numbers)
    except (ValueError, KeyError, IndexError, AttributeError, TypeError) as error:
        raise DataError(f"the sentence {template[:60]!r} cannot be filled: {error}.") from None
