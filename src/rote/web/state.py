"""All that a running explorer holds: its folder, its two processes, its builds, and what lies in the named folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rote.web.desk import Desk, Places, Reader
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
    light: Desk = field(default_factory=lambda: Desk("light", hands=2, places=64))
    """Does what takes a moment: more hands would only take the processor from the pages."""
    incoming: Places = field(default_factory=lambda: Places(8, "files coming in"))
    reader: Reader = field(init=False)
    """Answers what takes seconds at most: checks, questions, fits."""
    builds: Builds = field(init=False)

    def __post_init__(self) -> None:
        self.reader = Reader(Worker("reader", self.store.scratch("reader")))
        self.builds = Builds(Worker("builder", self.store.scratch("builder")))

    @classmethod
    def for_folder(cls, path: Path) -> State:
        return cls(Folder(path))

    def hush(self) -> None:
        """End whatever runs, so that nobody waits for an answer any more."""
        self.light.close()
        self.reader.close()
        self.builds.close()

    def close(self) -> None:
        """End the processes, and remove everything that was written."""
        self.hush()
        self.store.close()
