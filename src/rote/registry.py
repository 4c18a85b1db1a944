"""Registries that find their entries by file: one for theorems, constructions, models and kinds of tables alike."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from functools import cached_property
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
        self._opened: dict[str, Entry] = {}
        self._added: dict[str, Entry] = {}

    def _discovered(self) -> dict[str, Entry]:
        if self._found is None:
            self._found = {name: self._open(name) for name in self._names}
        return self._found

    @cached_property
    def _names(self) -> list[str]:
        return sorted(info.name for info in pkgutil.iter_modules(self.path) if not info.name.startswith("_"))

    def _open(self, name: str) -> Entry:
        if name not in self._opened:
            module = importlib.import_module(f"{self.package}.{name}")
            self._opened[name] = self.checked(name, getattr(module, self.what, None))
        return self._opened[name]

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

    def find(self, key: str) -> Entry | None:
        """The entry of that key, if there is one; no other file is opened."""
        if self._found is not None:
            return self._found.get(key) or self._added.get(key)
        return self._open(key) if key in self._names else self._added.get(key)

    def get(self, key: str) -> Entry:
        """The entry of that key, or an error that suggests the nearest."""
        found = self.find(key)
        if found is None:
            raise UnknownName(self.what, key, self.all())
        return found
