"""Writing a file so that readers see either the old content or the whole new one."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from rote.errors import OutputError

__all__ = ["disk_is_full", "write_atomically"]

_ROOM = 1 << 20
"""With fewer bytes left a disk is as good as full."""


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then move it into place; nothing is left behind on failure."""
    if path.is_dir():
        raise OutputError(f"cannot write {path}: it is a directory; name a file inside it.")
    if path.exists() and not path.is_file():
        raise OutputError(f"cannot write {path}: it is a device or a pipe, not a file; name a file.")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise _refusal(path, error) from error
    os.close(handle)
    part = Path(name)
    try:
        write(part)
        # mkstemp makes private files; give the result the mode that a plain open() would have given
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        os.replace(part, path)
    except Exception as error:
        if not isinstance(error, OSError) and not disk_is_full(error):
            raise
        raise _refusal(path, error) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()


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
