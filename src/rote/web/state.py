"""All that a running explorer holds: its folder, its two processes, its builds, and what lies in the named folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rote.web.jobs import Builds
from rote.web.pool import Worker
from rote.web.scan import Folder
from rote.web.store import Store

__all__ = ["State"]


@dataclass
class State:
    """Made at the start, closed at the end."""

    folder: Folder
    store: Store = field(default_factory=Store)
    reader: Worker = field(default_factory=lambda: Worker("reader"))
    """Answers what takes seconds at most: checks, questions, fits."""
    builder: Worker = field(default_factory=lambda: Worker("builder"))
    builds: Builds = field(init=False)

    def __post_init__(self) -> None:
        self.builds = Builds(self.builder)

    @classmethod
    def for_folder(cls, path: Path) -> State:
        return cls(Folder(path))

    def close(self) -> None:
        """End the processes, and remove everything that was written."""
        self.builds.close()
        self.reader.close()
        self.store.close()
