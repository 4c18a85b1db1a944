"""How a table was read: which source, which columns, what a token is. It travels with the table into the certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote.data.conflicts import OnConflict, check_on_conflict
from rote.data.tokenise import Tokens, check_tokens
from rote.errors import CheckpointError, UsageError

__all__ = ["Choices", "Reading"]


@dataclass(frozen=True)
class Choices:
    """What a caller may say about a source; None where it is left to the reader.

    `target` and `columns` name the target and the context columns, `tokens` says what a token is, `weight` names the
    column of counts or weights, and `kind` the kind of table, which is otherwise found out.
    """

    kind: str | None = None
    target: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    tokens: Tokens | None = None
    on_conflict: OnConflict = "error"
    weight: str | None = None

    @classmethod
    def of(
        cls,
        *,
        kind: str | None = None,
        target: str | Sequence[str] | None = None,
        columns: str | Sequence[str] | None = None,
        tokens: str | None = None,
        on_conflict: str = "error",
        weight: str | None = None,
    ) -> Choices:
        """The same from what people write: names separated by commas, or lists of names."""
        return cls(
            kind,
            _names(target),
            _names(columns),
            None if tokens is None else check_tokens(tokens),
            check_on_conflict(on_conflict),
            weight,
        )

    @property
    def one_target(self) -> str | None:
        """The target column of a kind that has one."""
        if self.target is not None and len(self.target) != 1:
            raise UsageError(f"this table has one target column, got {', '.join(self.target)}.")
        return None if self.target is None else self.target[0]

    @property
    def named(self) -> tuple[str, ...]:
        """Which of the choices about columns and tokens were made."""
        given = {"target": self.target, "columns": self.columns, "tokens": self.tokens, "weight": self.weight}
        return tuple(name for name, value in given.items() if value is not None)


def _names(given: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    return tuple(name.strip() for name in given.split(",")) if isinstance(given, str) else tuple(given)


@dataclass(frozen=True)
class Reading:
    """What reading found and did. `source` is a shipped name or a file's name, `path` where the file lies."""

    kind: str
    source: str
    choices: Choices
    tokens: Tokens = "cells"
    path: Path | None = None
    shipped: bool = False
    n_rows: int = 0
    n_duplicates: int = 0
    n_conflicts_resolved: int = 0
    n_padded: int = 0
    columns: tuple[str, ...] = ()
    """The context columns in use."""
    target: tuple[str, ...] = ()
    weight: str | None = None
    """The column of counts or weights in use."""

    def to_dict(self) -> dict[str, Any]:
        """For certificates and JSON: enough to read the source again in the same way."""
        record = {key: list(v) if isinstance(v, tuple) else v for key, v in vars(self).items()}
        del record["path"]
        record["choices"] = {key: list(v) if isinstance(v, tuple) else v for key, v in vars(self.choices).items()}
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Reading:
        """The inverse of `to_dict`, without the path."""
        try:
            choices = Choices(**_tuples(record["choices"]))
            return cls(**{**_tuples(record), "choices": choices})
        except (AttributeError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"the certificate does not say how its data were read ({error}); the file was edited."
            ) from None


def _tuples(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in record.items()}
