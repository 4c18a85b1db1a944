"""Every error that rote raises on purpose.

    RoteError                 anything a user can mend; exit code 2
    ├── UsageError            a call that makes no sense: unknown name, clashing options
    │   └── UnknownName       a name that is not registered; suggests the nearest one
    ├── ShapeError            an architecture that cannot exist or does not fit the data
    │   └── CapacityError     more facts than a shape can hold
    ├── DataError             facts or vectors that break a rule of the file format or of the data model
    │   └── ConflictError     the same context with different targets
    ├── AssumptionError       data that break an assumption of the theorem in use
    ├── CheckpointError       a stored model that is incomplete, altered or of another format
    ├── OutputError           a result that could not be written
    └── MissingExtra          an optional package that is not installed

Messages are one sentence (or a few) that say what is required, what was found, and what to do. The command line prints
the message alone; `--debug` adds the traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from rote._version import DISTRIBUTION

__all__ = [
    "AssumptionError",
    "CapacityError",
    "CheckpointError",
    "ConflictError",
    "DataError",
    "FactsLost",
    "MissingExtra",
    "OutputError",
    "RoteError",
    "ShapeError",
    "TooLarge",
    "UnknownName",
    "UsageError",
    "check_names",
    "install_command",
    "nearest",
]


_LONGEST_NAME = 200


class RoteError(Exception):
    """Something the user can mend; `exit_code` is what the command line returns."""

    exit_code = 2


class UsageError(RoteError):
    """A call that makes no sense as it stands."""


class UnknownName(UsageError):
    """A name that is not among the known ones; `otherwise` says what to do if it is meant nevertheless."""

    def __init__(self, what: str, name: str, known: Iterable[str], otherwise: str = "") -> None:
        known = sorted(known)
        close = nearest(str(name), known)
        within = [word for word in known if name and str(name).lower() in word.lower()]
        if close:
            hint = f"did you mean {' or '.join(repr(word) for word in close)}?"
        elif known:
            some = (within or known)[:12]
            hint = f"known: {', '.join(some)}{' and others' if len(known) > len(some) else ''}."
        else:
            hint = "none are known."
        shown = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
        super().__init__(f"there is no {what} {shown!r}; {hint}{otherwise and f' {otherwise}'}")
        self.name = name
        self.suggestions = close


class ShapeError(RoteError):
    """An architecture that cannot exist, or does not fit the data."""


class CapacityError(ShapeError):
    """More facts than a shape can hold."""


class TooLarge(CapacityError):
    """An attempt would take more memory or time than it may."""


class FactsLost(CapacityError):
    """A build that ended without all facts; a larger shape may do. `recall` is the share that it kept, if known."""

    def __init__(self, message: str, *, recall: float | None = None) -> None:
        super().__init__(message)
        self.recall = recall


class DataError(RoteError):
    """Facts or vectors that break a rule of the file or of the data model."""


class ConflictError(DataError):
    """The same context with different targets."""


class AssumptionError(RoteError):
    """Data that break an assumption of the theorem in use."""


class CheckpointError(RoteError):
    """A stored model that is incomplete, altered, or of another format."""


class OutputError(RoteError):
    """A result that could not be written."""


class MissingExtra(RoteError):
    """An optional package that is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package!r}: {install_command(extra)}.")


def install_command(extra: str) -> str:
    """What to type for an optional part of rote."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def check_names(what: str, names: Iterable[str], known: Collection[str]) -> None:
    """Refuse the first name that is not among the known ones."""
    for name in names:
        if name not in known:
            raise UnknownName(what, str(name), known)


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names closest to `name`, best first; empty when none is close, or where it is too long to be one."""
    if len(name) > _LONGEST_NAME:
        return []
    lowered = {word.lower(): word for word in known}
    found = difflib.get_close_matches(name.lower(), lowered, n=2, cutoff=0.55)
    return [lowered[word] for word in found]
