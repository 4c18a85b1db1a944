"""Processes that are killed, or told that the disk failed, at a chosen moment of writing.

A child is forked from a process that has everything imported, so that one attempt takes a fraction of a second. In the
child every call that changes the disk is counted, before and after it happens; at the chosen moment the child is killed
(SIGKILL), or the call fails. What C and Rust code writes by itself is reached through strace, where there is one.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import pathlib
import signal
import sqlite3
import sys
import tempfile
import traceback
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Ended", "Moments", "fork"]

_CALLS = ("mkdir", "rename", "replace", "link", "unlink", "remove", "rmdir", "chmod", "fsync", "truncate", "symlink")
_ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO}


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code (-9: killed), what it said, and how many moments it went through."""

    code: int
    said: str
    moments: int
    notes: tuple[str, ...] = ()
    """Lines that it wrote down before it ended, such as rows that were stored."""


class Moments:
    """Counts calls that change the disk below some directories, and strikes at one of them."""

    def __init__(self, at: int, how: str, places: tuple[Path, ...]) -> None:
        self.at, self.how, self.places, self.count = at, how, tuple(str(p) for p in places), 0
        self.notes = -1
        self._open = os.open

    def pass_by(self, call: str, before: bool = True) -> None:
        """One moment; the chosen one does not return, or fails."""
        here, self.count = self.count, self.count + 1
        if here != self.at:
            return
        if self.how == "KILL":
            self.note(f"count {self.count}")
            os.kill(os.getpid(), signal.SIGKILL)
        elif before and self.how in _ERRORS:
            raise OSError(_ERRORS[self.how], os.strerror(_ERRORS[self.how]), call)
        elif before and self.how == "INT":
            os.kill(os.getpid(), signal.SIGINT)

    def note(self, line: str) -> None:
        if self.notes >= 0:
            os.write(self.notes, f"{line}\n".encode())

    def ours(self, path: object) -> bool:
        return isinstance(path, (str, os.PathLike)) and os.path.abspath(path).startswith(self.places)

    def watch(self) -> None:
        """Put the counters into this process; it is a child that ends soon."""
        for name in _CALLS:
            setattr(os, name, self._around(name, getattr(os, name)))
        os.open = self._opening(os.open, lambda args: len(args) > 1 and bool(args[1] & os.O_CREAT))
        opened = self._opening(io.open, lambda args: len(args) > 1 and str(args[1])[:1] in "wax")
        io.open = opened
        __builtins__["open"] = opened
        for name in ("write_bytes", "write_text"):
            setattr(pathlib.Path, name, self._torn(getattr(pathlib.Path, name)))
        self._journals()
        from rote.data import _atomic

        _atomic._renamed = self._around("renameat2", _atomic._renamed)

    def _around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **more: Any) -> Any:
            if not (name == "fsync" or more.get("dir_fd") is not None or any(map(self.ours, args))):
                return call(*args, **more)
            self.pass_by(name)
            result = call(*args, **more)
            self.pass_by(name, before=False)
            return result

        return counted

    def _opening(self, call: Callable[..., Any], writes: Callable[[tuple[Any, ...]], bool]) -> Callable[..., Any]:
        def counted(*args: Any, **more: Any) -> Any:
            if not (writes((*args, *more.values())) and self.ours(args[0])):
                return call(*args, **more)
            self.pass_by("open")
            result = call(*args, **more)
            self.pass_by("open", before=False)
            return result

        return counted

    def _torn(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """A write that may end in the middle."""

        def counted(path: Path, content: Any, *args: Any, **more: Any) -> Any:
            if self.ours(path) and self.count == self.at:
                call(path, content[: len(content) // 2], *args, **more)
            if self.ours(path):
                self.pass_by("write")
            return call(path, content, *args, **more)

        return counted

    def _journals(self) -> None:
        moments = self

        class Counted(sqlite3.Connection):
            def execute(self, *args: Any) -> sqlite3.Cursor:
                moments.pass_by("sqlite", before=False)
                return super().execute(*args)

            def executemany(self, *args: Any) -> sqlite3.Cursor:
                moments.pass_by("sqlite", before=False)
                return super().executemany(*args)

        connect = sqlite3.connect
        sqlite3.connect = lambda *args, **more: connect(*args, **{**more, "factory": Counted})
        from rote.measurement.journal import Journal

        put = Journal.put

        def noted(journal: Journal, sweep: str, cells: Any, results: Any) -> None:
            put(journal, sweep, cells, results)
            for cell in cells:
                moments.note(f"row {cell.hash}")

        Journal.put = noted  # type: ignore[method-assign, assignment]


def fork(
    task: Callable[[], int], temporary: Path, moments: Moments | None = None, patience: int = 120
) -> Callable[[], Ended]:
    """Start a task in a child of its own; the call that waits for its end."""
    told, notes = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()  # what is there already is not gone through in every child
    child = os.fork()
    if child == 0:
        _run(task, temporary, moments, told.fileno(), notes.fileno(), patience)

    def ended() -> Ended:
        _, status = os.waitpid(child, 0)
        said = [_content(file).splitlines() for file in (told, notes)]
        lines = said[1]
        count = next((int(line.split()[1]) for line in reversed(lines) if line.startswith("count ")), 0)
        rows = tuple(line for line in lines if not line.startswith("count "))
        return Ended(os.waitstatus_to_exitcode(status), "\n".join(said[0]), count, rows)

    return ended


def _content(file: Any) -> str:
    with file:
        file.seek(0)
        return str(file.read().decode(errors="replace"))


def _run(
    task: Callable[[], int], temporary: Path, moments: Moments | None, told: int, notes: int, patience: int
) -> None:
    """In the child: everything that it says goes to a file, and it never returns."""
    code = 70
    try:
        signal.alarm(patience)
        weakref.finalize._registry.clear()  # type: ignore[attr-defined]  # the parent's affairs are not this one's
        os.dup2(told, 1)
        os.dup2(told, 2)
        sys.stdout = sys.stderr = io.TextIOWrapper(io.FileIO(told, "w", closefd=False), write_through=True)
        os.environ["TMPDIR"] = str(temporary)
        tempfile.tempdir = str(temporary)
        if moments is not None:
            moments.notes = notes
            moments.watch()
        code = task()
    except BaseException:
        traceback.print_exc()
    finally:
        _leave(moments, code)


def _leave(moments: Moments | None, code: int) -> None:
    """As an interpreter would end, with what it does at exit."""
    try:
        gc.collect()
        weakref.finalize._exitfunc()  # type: ignore[attr-defined]
        if moments is not None:
            for name in tuple(sys.modules) if moments.how == "modules" else ():
                moments.note(f"module {name}")
            moments.note(f"count {moments.count}")
    finally:
        os._exit(code)
