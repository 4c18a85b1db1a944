"""Writing a file so that readers see either the old content or the whole new one."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from rote.errors import OutputError

__all__ = ["write_atomically"]


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
    except OSError as error:
        raise _refusal(path, error) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()


def _refusal(path: Path, error: OSError) -> OutputError:
    reason = error.strerror or str(error)
    if not path.parent.is_dir():
        reason = f"the directory {path.parent} does not exist; create it first"
    elif error.errno == errno.ENOSPC:
        reason += "; free some space and try again, nothing was changed"
    return OutputError(f"cannot write {path}: {reason}.")
