"""The working folder of one explorer: uploads and built models, under names that the server makes up.

Requests carry ids; an id is looked up in a dictionary, and only what is found there has a path. The folder is removed
at the end, and folders that a killed explorer left behind are removed at the next start.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from rote.errors import DataError, UsageError

__all__ = ["MAX_UPLOAD_BYTES", "MAX_UPLOAD_LINES", "Store", "Upload"]

MAX_UPLOAD_BYTES = 20_000_000
MAX_UPLOAD_LINES = 200_000
MAX_UPLOADS = 20
ROWS = (".csv", ".tsv", ".jsonl")
"""Tables of cells that the page takes; kinds of tables may have endings of their own."""
_PREFIX = "rote-ui-"


@dataclass(frozen=True)
class Upload:
    """A file that was dropped on the page."""

    id: str
    label: str
    """Its name as it was, cleaned: shown, and never opened."""
    kind: str
    path: Path
    size: int


class Store:
    """Uploads and model folders, by id."""

    def __init__(self) -> None:
        _sweep_old()
        self.root = Path(tempfile.mkdtemp(prefix=_PREFIX))
        (self.root / "pid").write_text(str(os.getpid()), encoding="ascii")
        self._uploads: dict[str, Upload] = {}
        self._lock = threading.Lock()
        self.reports: dict[str, Path] = {}

    def new_id(self) -> str:
        return secrets.token_hex(6)

    def model_folder(self, id_: str) -> Path:
        """Where the build of this id goes; ids are made here and nowhere else."""
        assert re.fullmatch(r"[0-9a-f]{12}", id_), "ids are made by new_id"
        return self.root / f"model-{id_}"

    def report_file(self, id_: str) -> Path:
        """Where the report of this id goes."""
        self.reports[id_] = self.root / f"report-{len(self.reports)}.html"
        return self.reports[id_]

    def begin_upload(self, name: str) -> tuple[str, str, str, Path]:
        """(id, label, kind, path) for a file of this name; an ending that is not known is refused."""
        label = clean_name(name)
        ending, known = Path(label).suffix.lower(), endings()
        if ending not in known:
            raise DataError(f"{label} is none of {', '.join(known)}; save the facts as one of these and drop it again.")
        id_ = self.new_id()
        return id_, label, ending[1:], self.root / f"upload-{id_}{ending}"

    def keep_upload(self, upload: Upload, in_use: frozenset[str] = frozenset()) -> None:
        """Take it in; the oldest ones that no build waits for make room."""
        with self._lock:
            self._uploads[upload.id] = upload
            spare = [id_ for id_ in self._uploads if id_ not in in_use and id_ != upload.id]
            for id_ in spare[: max(0, len(self._uploads) - MAX_UPLOADS)]:
                self._uploads.pop(id_).path.unlink(missing_ok=True)

    def upload(self, id_: str) -> Upload:
        """The upload of that id, or a refusal."""
        found = self._uploads.get(id_)
        if found is None:
            raise UsageError("this file is not here any more; drop it again.")
        return found

    def close(self) -> None:
        """Remove the folder and all that is in it."""
        shutil.rmtree(self.root, ignore_errors=True)


def endings() -> tuple[str, ...]:
    """Endings of files that the page takes."""
    from rote import data

    return (*ROWS, *(ending for kind in data.registry().values() for ending in kind.endings))


def has_words(folder: Path) -> bool:
    """Whether a model can be asked in words: then its directory has a tokenizer, whatever its kind."""
    return (folder / "tokenizer.json").is_file()


def clean_name(name: str) -> str:
    """The last part of a file name, without characters that could mislead anyone."""
    last = re.split(r"[/\\]", name)[-1]
    kept = "".join(c for c in last if c.isprintable()).strip().lstrip(".")
    return kept[-80:] or "facts"


def _sweep_old() -> None:
    """Folders of explorers that were killed; only one's own, and only where the process is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            if folder.is_symlink() or (hasattr(os, "getuid") and folder.stat().st_uid != os.getuid()):
                continue
            number = int((folder / "pid").read_text(encoding="ascii"))
            if not _alive(number):
                shutil.rmtree(folder, ignore_errors=True)


def _alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
