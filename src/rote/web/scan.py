"""What lies in the folder that the explorer was started for: results databases, grids, models, reproduced figures.

The folder is only read. Every request looks again; an id is the hash of a name that was found, so that no request can
name anything else. Links are not followed, hidden folders are not entered, and depth and number are limited.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rote.errors import UsageError

__all__ = ["Folder", "Item", "Kind"]

Kind = Literal["results", "grid", "model", "entry"]
_DEPTH = 4
_MOST = 20_000
_SQLITE = b"SQLite format 3\0"
_ROTE = b"rote"
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})


@dataclass(frozen=True)
class Item:
    """One thing in the folder."""

    id: str
    kind: Kind
    name: str
    """Its place below the folder, for people."""
    path: Path


class Folder:
    """Looks into one folder, and nowhere else."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def look(self, kind: Kind | None = None) -> list[Item]:
        """Everything of a kind, by name."""
        items = []
        for path in _files(self.root):
            what = _kind(path)
            if what is None or (kind is not None and what != kind):
                continue
            place = path.parent if what in ("model", "entry") else path
            name = place.relative_to(self.root).as_posix()
            if name == ".":
                name = self.root.resolve().name
            mark = hashlib.sha256(f"{what}\n{name}".encode("utf-8", "surrogateescape")).hexdigest()[:12]
            items.append(Item(mark, what, name, place))
        return sorted(items, key=lambda item: item.name)

    def get(self, kind: Kind, id_: str) -> Item:
        """The one of that id, or a refusal."""
        for item in self.look(kind):
            if item.id == id_:
                return item
        raise UsageError("this is not in the folder any more; go back to the list.")


def _files(root: Path) -> Iterator[Path]:
    """Files below the root, no links, not too deep, not too many."""
    left = [(root, 0)]
    seen = 0
    while left:
        folder, depth = left.pop(0)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if seen > _MOST:
                return
            if entry.name.startswith(".") or entry.is_symlink():
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth + 1 < _DEPTH and entry.name not in _SKIPPED:
                    left.append((Path(entry.path), depth + 1))
            elif entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def _kind(path: Path) -> Kind | None:
    """What a file is, by its name and, for databases, by its first bytes."""
    if path.name == "certificate.json":
        return "model"
    if path.name == "entry.json":
        return "entry"
    if path.suffix == ".toml":
        return "grid"
    if path.suffix in (".db", ".sqlite", ".sqlite3"):
        try:
            with path.open("rb") as file:
                head = file.read(72)
        except OSError:
            return None
        if head.startswith(_SQLITE) and (head[68:72] == _ROTE or _marked_in_log(path)):
            return "results"
    return None


def _marked_in_log(path: Path) -> bool:
    """A database that is being written has its newest pages, the first one too, in a log beside it."""
    log = path.with_name(path.name + "-wal")
    try:
        if not log.stat().st_size:
            return False
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=1)) as db:
            return bool(db.execute("PRAGMA application_id").fetchone()[0] == int.from_bytes(_ROTE, "big"))
    except (OSError, sqlite3.Error):
        return False
