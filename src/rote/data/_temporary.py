"""Files and directories under temporary names: locked while somebody uses them, and removed by the next run otherwise.

A temporary name is `.NAME.rote-HOST-RANDOM`. Whoever made it holds a lock (flock) on it, which ends with the process
however that ends. So what carries such a name, was made on this machine by the same user, and can be locked, is dead:
`clear_dead` removes it. Anything else is left alone. Where there are no such locks, nothing is ever cleared.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Literal

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]

__all__ = ["Temporary", "clear_dead", "close_all", "held", "old_name", "remove", "sync"]

Lock = Literal["ours", "taken", "unknown"]

_HOST = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
_OLD = "old"
_NAME = re.compile(rf"\.(?P<stem>.*)\.rote-{_HOST}-(?P<random>[0-9a-f]{{12}}|{_OLD})", re.DOTALL)
_CUT = re.compile(r".*~[0-9a-f]{16}", re.DOTALL)
_LONGEST = 200
_MOST_TRIES = 100
_REMOVALS = 5
"""A disk that failed once may do it the next time."""
_MOMENT = 0.02
"""Seconds after which the collector has surely returned."""
_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
"""What file systems say that have no use for syncing directories."""


class Temporary:
    """A fresh file or directory beside an output, which is removed when nobody needs it any more.

    `near` is the directory that it lies in, `stem` the name of what it is for.
    """

    def __init__(self, near: Path, stem: str, *, directory: bool) -> None:
        clear_dead(near)
        for _ in range(_MOST_TRIES):
            self.path = near / f".{_short(stem)}.rote-{_HOST}-{secrets.token_hex(6)}"
            locks: list[int] = []
            # Before anything is made, so that an interruption at any moment finds it.
            self._end = weakref.finalize(self, _forgotten, os.getpid(), self.path, locks)
            _LIVE.add(self)
            with contextlib.suppress(FileExistsError):
                if directory:
                    os.mkdir(self.path, 0o700)
                else:
                    os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                if _lock(self.path, locks) != "taken":
                    return
            self._end.detach()
            _unlock(locks)
        raise FileExistsError(errno.EEXIST, "no temporary name is free", str(near))

    def close(self) -> None:
        """Remove it now, unless it was moved away."""
        known = self._end.detach()
        if known is not None:
            _end(*known[2])


_LIVE: weakref.WeakSet[Temporary] = weakref.WeakSet()


def close_all() -> None:
    """Remove everything temporary of this process, which is about to end."""
    for one in list(_LIVE):
        one.close()


def held(path: Path) -> Callable[[], None] | None:
    """Lock a file or directory; the call that lets it go again, or None where somebody else has it."""
    locks: list[int] = []
    return None if _lock(path, locks) == "taken" else (lambda: _unlock(locks))


def old_name(path: Path) -> Path:
    """Where what is at a path is kept while it is being replaced, on systems that cannot exchange two names."""
    return path.parent / f".{_short(path.name)}.rote-{_HOST}-{_OLD}"


def clear_dead(place: Path) -> None:
    """Remove what killed processes left under temporary names in a directory.

    What was being replaced when its process was killed goes back to its place, if nothing is there.
    """
    if fcntl is None or not place.is_dir():
        return
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        found = [
            (entry.name, match)
            for entry in entries
            if (match := _NAME.fullmatch(entry.name))
            and not entry.is_symlink()
            and entry.stat(follow_symlinks=False).st_uid == os.getuid()
        ]
        for name, match in found:
            path, locks = place / name, list[int]()
            try:
                if _lock(path, locks) != "ours":
                    continue
                home = place / match["stem"]
                if match["random"] != _OLD or os.path.lexists(home):
                    remove(path)
                elif not _CUT.fullmatch(match["stem"]):
                    os.rename(path, home)
            except OSError:
                continue
            finally:
                _unlock(locks)


def remove(path: Path) -> None:
    """Remove a file or a directory with all that is in it, as far as that goes; an interruption waits until the end."""
    interrupted: KeyboardInterrupt | None = None
    for _ in range(_REMOVALS):
        try:
            with contextlib.suppress(OSError):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()
            if not os.path.lexists(path):
                break
        except KeyboardInterrupt as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted


def sync(path: Path) -> None:
    """Have the disk keep a file's content, or a directory's names; nothing where the system has no such call."""
    try:
        number = os.open(path, os.O_RDONLY)
    except (IsADirectoryError, PermissionError):  # a system that cannot open directories, a file for writing only
        return
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(number)


def _short(stem: str) -> str:
    """The name itself, or the beginning of a long one with a mark of the whole."""
    raw = stem.encode(errors="surrogateescape")
    return stem if len(raw) <= _LONGEST else f"{stem[:40]}~{hashlib.sha256(raw).hexdigest()[:16]}"


def _lock(path: Path, locks: list[int]) -> Lock:
    """Lock it, if nobody else has: "taken" also where it is gone, "unknown" where there are no locks."""
    if fcntl is None:
        return "unknown"  # type: ignore[unreachable]  # pragma: no cover
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return "taken"
    except OSError:
        return "unknown"
    locks.append(number)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return "taken"
    except OSError:
        return "unknown"
    # Who locks last may have locked something that was removed in between.
    with contextlib.suppress(OSError):
        if os.path.samestat(os.fstat(number), os.stat(path, follow_symlinks=False)):
            return "ours"
    return "taken"


def _unlock(locks: list[int]) -> None:
    while locks:
        with contextlib.suppress(OSError):
            os.close(locks.pop())


def _end(owner: int, path: Path, locks: list[int]) -> None:
    try:
        if os.getpid() == owner:
            remove(path)
    finally:
        _unlock(locks)


def _forgotten(owner: int, path: Path, locks: list[int]) -> None:
    """Called by the collector, who would drop an interruption with a traceback: it comes again a moment later."""
    try:
        _end(owner, path, locks)
    except KeyboardInterrupt:
        later = threading.Timer(_MOMENT, _thread.interrupt_main)
        later.daemon = True
        later.start()
