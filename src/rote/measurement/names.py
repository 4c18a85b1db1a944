"""Names in files and requests: what is not known is refused, with the nearest that is."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rote.errors import UnknownName

__all__ = ["check_names"]


def check_names(what: str, names: Iterable[str], known: Collection[str]) -> None:
    """Refuse the first name that is not among the known ones."""
    for name in names:
        if name not in known:
            raise UnknownName(what, str(name), known)
