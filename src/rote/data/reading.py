"""How a table was read: which source, which columns, what a token is. It travels with the table into certificates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from rote.errors import CheckpointError, UnknownName, UsageError

__all__ = [
    "ON_CONFLICT",
    "ON_MISSING",
    "TOKENS",
    "Choices",
    "OnConflict",
    "OnMissing",
    "Reading",
    "Tokens",
    "check_on_conflict",
    "check_on_missing",
    "check_tokens",
]

Tokens = Literal["cells", "words", "chars"]
TOKENS: tuple[Tokens, ...] = get_args(Tokens)
OnConflict = Literal["error", "first", "last"]
ON_CONFLICT: tuple[OnConflict, ...] = get_args(OnConflict)
OnMissing = Literal["error", "skip", "token"]
ON_MISSING: tuple[OnMissing, ...] = get_args(OnMissing)


def check_tokens(name: str) -> Tokens:
    """`name` as a way of cutting cells into tokens, or an error that lists the known ones."""
    for tokens in TOKENS:
        if name == tokens:
            return tokens
    raise UnknownName("way of making tokens", name, TOKENS)


def check_on_conflict(name: str) -> OnConflict:
    """`name` as a way to settle contradictions, or an error that lists the known ones."""
    for choice in ON_CONFLICT:
        if name == choice:
            return choice
    raise UnknownName("way to settle conflicts", name, ON_CONFLICT)


def check_on_missing(name: str) -> OnMissing:
    """`name` as a way to settle empty cells, or an error that lists the known ones."""
    for choice in ON_MISSING:
        if name == choice:
            return choice
    raise UnknownName("way to settle empty cells", name, ON_MISSING)


@dataclass(frozen=True)
class Choices:
    """What a caller may say about a source; None where it is left to the reader.

    `target` and `columns` name the target and the context columns, `tokens` says what a token is, `weight` names the
    column of counts or weights, and `kind` the kind of table, which is otherwise found out. `on_conflict` and
    `on_missing` settle contradictions and empty cells. `template` and `answer` are
    prompts with columns in braces and what follows them, for `sample` rows drawn with `seed`, or for all.
    """

    kind: str | None = None
    target: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    tokens: Tokens | None = None
    on_conflict: OnConflict = "error"
    weight: str | None = None
    template: tuple[str, ...] | None = None
    answer: tuple[str, ...] | None = None
    sample: int | None = None
    seed: int | None = None
    on_missing: OnMissing = "error"

    @classmethod
    def of(
        cls,
        *,
        kind: str | None = None,
        target: str | Sequence[str] | None = None,
        columns: str | Sequence[str] | None = None,
        tokens: str | None = None,
        on_conflict: str = "error",
        on_missing: str = "error",
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
            on_missing=check_on_missing(on_missing),
        )

    def over(self, usual: Choices) -> Choices:
        """These choices, and the usual ones where none was made."""
        chosen = {name: value for name, value in vars(self).items() if value not in (None, "error")}
        return replace(usual, **chosen)

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
    n_missing: int = 0
    """Rows with an empty cell that was settled: rows left out, or filled in."""
    n_padded: int = 0
    columns: tuple[str, ...] = ()
    """The context columns in use."""
    target: tuple[str, ...] = ()
    weight: str | None = None
    """The column of counts or weights in use."""
    key: str | None = None
    """A context column of several that tells all rows apart by itself, where nobody said what the columns are."""
    unread: tuple[str, ...] = ()
    """Columns that are left out, as the key alone tells rows apart and several others are answers."""

    @property
    def properties(self) -> tuple[str, ...]:
        """The last token of every context, where facts were made of several target columns; none otherwise."""
        return self.target if self.kind == "facts" and len(self.target) > 1 else ()

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
            _check_choices(choices)
            return cls(**{**_tuples(record), "choices": choices})
        except (AttributeError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"the certificate does not say how its data were read ({error}); the file was edited."
            ) from None


def _check_choices(choices: Choices) -> None:
    """Refuse choices of other types than they were written with."""
    for names in (choices.target, choices.columns, choices.template, choices.answer):
        if names is not None and not (isinstance(names, tuple) and all(isinstance(name, str) for name in names)):
            raise TypeError(f"columns are {names!r}")
    for name in (choices.kind, choices.weight):
        if not isinstance(name, (str, type(None))):
            raise TypeError(f"a name is {name!r}")
    for number in (choices.sample, choices.seed):
        if isinstance(number, bool) or not isinstance(number, (int, type(None))):
            raise TypeError(f"a number is {number!r}")
    if choices.tokens is not None:
        check_tokens(str(choices.tokens))
    check_on_conflict(str(choices.on_conflict))
    check_on_missing(str(choices.on_missing))


def _tuples(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in record.items()}
