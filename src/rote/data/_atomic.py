"""Writing so that readers see either what was there before or the whole of what is new, whatever happens in between.

Content goes to a temporary name beside its place and to the disk; then the name changes in one step. What was there is
exchanged for it, not moved away first, where the system can do that (Linux).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rote.data._temporary import Temporary, clear_dead, old_name, sync
from rote.errors import OutputError

__all__ = ["disk_is_full", "put_directory", "write_atomically"]

_AT_FDCWD = -100
_NO_REPLACE, _EXCHANGE = 1, 2
_LACKING = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
"""What systems and file systems say that cannot do it."""
_OVERTAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOENT)
"""What a rename says when another writer came first."""
_MOST_TRIES = 100
_ROOM = 1 << 20
"""With fewer bytes left a disk is as good as full."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then move it into place; nothing is left behind on failure."""
    if path.is_dir():
        raise OutputError(f"cannot write {path}: it is a directory; name a file inside it.")
    if path.exists() and not path.is_file():
        raise OutputError(f"cannot write {path}: it is a device or a pipe, not a file; name a file.")
    try:
        part = Temporary(path.parent, path.name, directory=False)
    except OSError as error:
        raise _refusal(path, error) from error
    try:
        write(part.path)
        # A temporary file is private; give the result the mode that a plain open() would have given.
        mask = os.umask(0)
        os.umask(mask)
        part.path.chmod(0o666 & ~mask)
        sync(part.path)
        os.replace(part.path, path)
        sync(path.parent)
    except Exception as error:
        if not isinstance(error, OSError) and not disk_is_full(error):
            raise
        raise _refusal(path, error) from error
    finally:
        part.close()


def put_directory(part: Path, path: Path, allowed: Callable[[], None]) -> None:
    """Move a directory from a temporary name into place; what was there before has the temporary name afterwards.

    `allowed` refuses what must not be replaced; it is asked again whenever another writer was faster.
    """
    for folder, _, files in os.walk(part, topdown=False):
        for name in files:
            sync(Path(folder, name))
        sync(Path(folder))
    back = _placed(part, path, allowed)
    try:
        sync(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            back()
        raise


def _placed(part: Path, path: Path, allowed: Callable[[], None]) -> Callable[[], None]:
    """Put it there; the call that undoes it."""
    for left in reversed(range(_MOST_TRIES)):
        allowed()
        try:
            if os.path.lexists(path):
                _exchange(part, path)
                return lambda: _exchange(part, path)
            _move(part, path)
            return lambda: os.rename(path, part)
        except OSError as error:
            if error.errno not in _OVERTAKEN or not left:
                raise
            clear_dead(path.parent)
    raise AssertionError("the last try returns or raises")


def _move(part: Path, path: Path) -> None:
    """Rename to a name that nothing has."""
    if not _renamed(part, path, _NO_REPLACE):
        os.rename(part, path)


def _exchange(part: Path, path: Path) -> None:
    """Exchange two names: in one step, or by way of a third name that the next run knows how to undo."""
    if _renamed(part, path, _EXCHANGE):
        return
    old = old_name(path)
    try:
        os.rename(path, old)
        os.rename(part, path)
    except BaseException:
        if os.path.lexists(old) and not os.path.lexists(path):
            os.rename(old, path)
        raise
    with contextlib.suppress(OSError):
        os.rename(old, part)


def _renamed(old: Path, new: Path, flag: int) -> bool:
    """Rename as the flag says; False where the system cannot."""
    call = _renameat2()
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _LACKING:
        return False
    raise OSError(number, os.strerror(number), str(old), None, str(new))


@functools.cache
def _renameat2() -> Any:
    """The call of the C library; None where it has none."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return call


def disk_is_full(error: BaseException, place: Path | None = None) -> bool:
    """Whether an error is for want of room: by its number, or by its words, as libraries keep the number to themselves.

    Where an error only says that writing failed, `place` is the file, and the disk is asked whether it has room.
    """
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    if any(words in str(error) for words in ("os error 28", "No space left", "StorageFull", "disk is full")):
        return True
    try:
        return place is not None and shutil.disk_usage(place.parent).free < _ROOM
    except OSError:
        return False


def _refusal(path: Path, error: Exception) -> OutputError:
    reason = getattr(error, "strerror", None) or str(error)
    if not path.parent.is_dir():
        reason = f"the directory {path.parent} does not exist; create it first"
    elif disk_is_full(error):
        reason = "the disk is full; free some space and try again, nothing was changed"
    return OutputError(f"cannot write {path}: {reason}.")
