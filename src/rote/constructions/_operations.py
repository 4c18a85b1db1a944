"""What may be done to a model that is there already: the records of edits, and of where facts lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from rote.data._arrays import IntArray
    from rote.data.table import Table
    from rote.models import Model, Piece

__all__ = ["NOBODY", "Edit", "Edited", "Located", "Search"]

NOBODY = -1
"""In the place of a target: the context is no fact."""


@dataclass(frozen=True)
class Edit:
    """Contexts whose answers are to change, all in the token ids of the model."""

    model: Model
    table: Table
    """All facts as they are now."""
    keys: IntArray
    """(K, S), distinct."""
    before: IntArray
    """(K,): targets as they are now, NOBODY where a context is no fact yet."""
    after: IntArray
    """(K,): targets as they shall be, NOBODY where a fact is to be forgotten."""
    certificate: Mapping[str, Any]
    rng: np.random.Generator


@dataclass(frozen=True)
class Edited:
    """The model after an edit, and for people what was done."""

    model: Model
    how: tuple[str, ...]


@dataclass(frozen=True)
class Search:
    """A model and all its facts, in its token ids."""

    model: Model
    table: Table
    certificate: Mapping[str, Any]


@dataclass(frozen=True)
class Located:
    """Where a fact lies, exactly: pieces of the model, how many facts read each of them, and a sentence for people."""

    pieces: tuple[Piece, ...]
    readers: tuple[int, ...]
    said: str
