"""Registries that find their entries by file: one for theorems, constructions, models and kinds of tables alike."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from rote.errors import UnknownName

__all__ = ["Registry"]

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """What every module of a package, without a leading underscore, defines under one name; the key is the file's name.

    `what` is that name. The entry is an instance of `kind`, or a subclass of it where `classes` says so; the attribute
    `slot` of it is set to the key.
    """

    def __init__(
        self, what: str, package: str, path: Iterable[str], kind: type, *, classes: bool = False, slot: str = "key"
    ) -> None:
        self.what, self.package, self.path, self.kind = what, package, list(path), kind
        self.classes, self.slot = classes, slot
        self._found: dict[str, Entry] | None = None
        self._added: dict[str, Entry] = {}

    def _discovered(self) -> dict[str, Entry]:
        if self._found is None:
            names = sorted(info.name for info in pkgutil.iter_modules(self.path) if not info.name.startswith("_"))
            modules = {name: importlib.import_module(f"{self.package}.{name}") for name in names}
            self._found = {name: self.checked(name, getattr(m, self.what, None)) for name, m in modules.items()}
        return self._found

    def checked(self, key: str, entry: Any) -> Entry:
        """An entry under its key, if it is one; it is not added."""
        fits = (
            isinstance(entry, type) and issubclass(entry, self.kind) if self.classes else isinstance(entry, self.kind)
        )
        if not fits:
            form = "a subclass" if self.classes else "an instance"
            raise TypeError(f"{self.what} file {key!r} must define `{self.what}`, {form} of {self.kind.__name__}.")
        known = vars(entry).get(self.slot) if self.classes else getattr(entry, self.slot, None)
        if known and known != key:
            raise ValueError(f"{self.what} {key!r} is already registered as {known!r}.")
        setattr(entry, self.slot, key)
        checked: Entry = entry
        return checked

    def all(self) -> Mapping[str, Entry]:
        """All entries by key, in alphabetical order, those added by `register` last."""
        return MappingProxyType({**self._discovered(), **self._added})

    def register(self, key: str, entry: Entry) -> None:
        """Add an entry from outside of the package, for the life of the process; a duplicate key is refused."""
        if key in self.all():
            raise ValueError(f"{self.what} {key!r} is registered already.")
        self._added[key] = self.checked(key, entry)

    def get(self, key: str) -> Entry:
        """The entry of that key, or an error that suggests the nearest."""
        known = self.all()
        if key not in known:
            raise UnknownName(self.what, key, known)
        return known[key]
