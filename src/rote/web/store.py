"""The working folder of one explorer: uploads and built models, under names that the server makes up.

Requests carry ids; an id is looked up in a dictionary, and only what is found there has a path. The folder is removed
at the end. A lock in it is held for as long as its explorer lives: whoever gets the lock knows that the explorer is
dead, and folders of dead ones are removed at the next start.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import secrets
import shutil
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rote.errors import DataError, UsageError

try:
    import fcntl
except ImportError:  # no such locks here: folders of dead explorers stay
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "MAX_UPLOAD_BYTES",
    "MAX_UPLOAD_COLUMNS",
    "MAX_UPLOAD_LINES",
    "Report",
    "Store",
    "Upload",
]

MAX_UPLOAD_BYTES = 20_000_000
MAX_UPLOAD_LINES = 200_000
MAX_UPLOAD_COLUMNS = 1000
MAX_HEADER_BYTES = 1_000_000
MAX_UPLOADS = 20
MAX_REPORTS = 5
ROWS = (".csv", ".tsv", ".jsonl")
"""Tables of cells that the page takes; kinds of tables may have endings of their own."""
_PREFIX = "rote-ui-"
_LOCK = "lock"


@dataclass(frozen=True)
class Upload:
    """A file that was dropped on the page."""

    id: str
    label: str
    """Its name as it was, cleaned: shown, and never opened."""
    kind: str
    path: Path
    size: int


@dataclass(frozen=True)
class Report:
    """A page that was made of results."""

    id: str
    home: Path
    """All that it writes; the page, and copies of databases while it is made."""
    sources: tuple[str, ...]

    @property
    def page(self) -> Path:
        return self.home / "report.html"

    def clear(self) -> None:
        """Remove its files."""
        shutil.rmtree(self.home, ignore_errors=True)


class Store:
    """Uploads, builds and reports, by id."""

    def __init__(self) -> None:
        _sweep_old()
        self.root = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._held = _lock(self.root)
        self._uploads: dict[str, Upload] = {}
        self._reports: dict[str, Report] = {}
        self._lock = threading.Lock()

    def new_id(self) -> str:
        return secrets.token_hex(6)

    def scratch(self, name: str) -> Path:
        """Where the process of this name puts its temporary files."""
        return self.root / f"scratch-{name}"

    def build_home(self, id_: str) -> Path:
        """Where the build of this id goes; ids are made here and nowhere else."""
        assert re.fullmatch(r"[0-9a-f]{12}", id_), "ids are made by new_id"
        return self.root / f"build-{id_}"

    def begin_report(self, sources: Sequence[str]) -> Report:
        """A place for a report of these sources."""
        id_ = self.new_id()
        report = Report(id_, self.root / f"report-{id_}", tuple(sources))
        report.home.mkdir()
        return report

    def keep_report(self, report: Report) -> None:
        """Take it in; it replaces one of the same sources, and the oldest ones make room."""
        with self._lock:
            same = [one for one in self._reports.values() if one.sources == report.sources]
            for one in same:
                del self._reports[one.id]
            self._reports[report.id] = report
            old = list(self._reports.values())[:-MAX_REPORTS]
            for one in old:
                del self._reports[one.id]
        for one in (*same, *old):
            one.clear()

    def report(self, id_: str) -> Report:
        """The report of that id, or a refusal."""
        found = self._reports.get(id_)
        if found is None:
            raise UsageError("there is no such report any more; make it again on the runs page.")
        return found

    def begin_upload(self) -> tuple[str, Path]:
        """(id, path) for a file that comes in."""
        id_ = self.new_id()
        return id_, self.root / f"upload-{id_}"

    def named_upload(self, id_: str, name: str, size: int, lines: int) -> Upload:
        """The file of this id, by the name that its owner gave it; other endings and too much of it are refused."""
        label = clean_name(name)
        ending, known = Path(label).suffix.lower(), endings()
        if ending not in known:
            raise DataError(f"{label} is none of {', '.join(known)}; save the facts as one of these and drop it again.")
        _refuse_large(label, size, lines)
        path = self.root / f"upload-{id_}"
        _refuse_wide(label, ending, path)
        return Upload(id_, label, ending[1:], path.rename(path.with_suffix(ending)), size)

    def drop_upload(self, id_: str) -> None:
        """Remove a file that was refused, whatever it is called by now."""
        for path in self.root.glob(f"upload-{id_}*"):
            path.unlink(missing_ok=True)

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
        self._held.close()
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


def _refuse_large(label: str, size: int, lines: int) -> None:
    """Refuse a file of too many bytes or lines."""
    for much, most, what in (
        (size, MAX_UPLOAD_BYTES, f"is larger than {MAX_UPLOAD_BYTES // 10**6} MB"),
        (lines, MAX_UPLOAD_LINES, f"has more than {MAX_UPLOAD_LINES:,} lines"),
    ):
        if much > most:
            raise _too_much(label, what)


def _refuse_wide(label: str, ending: str, path: Path) -> None:
    """Refuse a table of too many columns by its first row, which is all that is looked at."""
    if ending not in ROWS:
        return
    with path.open("rb") as file:
        head = file.read(MAX_HEADER_BYTES + 1).removeprefix(codecs.BOM_UTF8).lstrip()
    columns, whole = _keys(head) if ending == ".jsonl" else _names(head, b"\t" if ending == ".tsv" else b",")
    if columns > MAX_UPLOAD_COLUMNS:
        raise _too_much(label, f"has more than {MAX_UPLOAD_COLUMNS:,} columns")
    if not whole and len(head) > MAX_HEADER_BYTES:
        raise _too_much(label, f"has a first row of more than {MAX_HEADER_BYTES // 10**6} MB")


def _too_much(label: str, what: str) -> DataError:
    return DataError(f"{label} {what}, the most that this page takes; `rote build` on the command line takes more.")


def _names(head: bytes, separator: bytes) -> tuple[int, bool]:
    """How many names a header has, and whether it ends in here; what stands in quotes separates nothing."""
    columns = 1
    for outside in head.split(b'"')[::2]:
        end = re.search(rb"[\r\n]", outside)
        columns += outside[: end.start() if end else None].count(separator)
        if end:
            return columns, True
    return columns, False


def _keys(head: bytes) -> tuple[int, bool]:
    """How many keys the first object has, and whether it ends in here; what is no object is the reader's to refuse."""
    line, end, _ = head.partition(b"\n")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    return len(row) if isinstance(row, dict) else 0, bool(end)


def _lock(folder: Path) -> IO[bytes]:
    """Hold the lock of a folder: it appears under its name only once it is held."""
    file = (folder / f".{_LOCK}").open("wb")
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX)
        (folder / f".{_LOCK}").rename(folder / _LOCK)
    return file


def _sweep_old() -> None:
    """Folders of explorers that were killed; only one's own, and only where nobody holds the lock any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or (hasattr(os, "getuid") and folder.stat().st_uid != os.getuid()):
                continue
            with (folder / _LOCK).open("rb") as file:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
