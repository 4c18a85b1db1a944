"""Where a table comes from: a file, or shipped data by name. It is opened once, when a kind first asks for its rows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rote.data import shipped
from rote.data.files import FORMATS, read_raw
from rote.data.reading import Choices, Reading, Tokens
from rote.data.rows import RawRows
from rote.errors import UnknownName

__all__ = ["Source", "load_rows"]


@dataclass(frozen=True)
class Source:
    """A file (`path`) or, without one, shipped data."""

    name: str
    """The shipped name, or the file's."""
    path: Path | None = None
    tokens: Tokens = "cells"
    """What a token is unless the caller says otherwise."""

    @classmethod
    def of(cls, source: str | os.PathLike[str]) -> Source:
        """What a caller means by a text or a path.

        A shipped name wins over a file of the same name (write ./elements for the file). Anything else that exists,
        has a directory part or an ending is a path; the rest is a misspelt name.
        """
        if isinstance(source, str):
            names = shipped.names()
            if source in names:
                return cls(source, None, names[source])
            path = Path(source)
            if not ("/" in source or "\\" in source or path.suffix or path.exists()):
                raise UnknownName("file or data set named", source, names)
        path = Path(source)
        return cls(path.name, path)

    @property
    def shipped(self) -> bool:
        return self.path is None

    @property
    def stem(self) -> str:
        """A name for the table."""
        return self.name.split(".")[0] or self.name

    @property
    def ending(self) -> str:
        """The ending of the file's name, in small letters; empty for shipped data."""
        return "" if self.path is None else self.path.suffix.lower()

    @property
    def has_rows(self) -> bool:
        """Whether it is a table of cells, by the ending of its name."""
        return self.shipped or any(suffix.lower() in FORMATS for suffix in Path(self.name).suffixes[-2:])

    @cached_property
    def rows(self) -> RawRows:
        """All columns, as strings."""
        return shipped.rows(self.name) if self.path is None else read_raw(self.path)

    def reading(self, choices: Choices) -> Reading:
        """The record of a reading, before anything is counted."""
        tokens = choices.tokens or self.tokens
        return Reading(choices.kind or "", self.name, choices, tokens, self.path, self.shipped)


def load_rows(source: str | os.PathLike[str]) -> RawRows:
    """The rows themselves, with their named columns, of a file or of shipped data."""
    return Source.of(source).rows
