"""Ctrl-C that ends soon: also in the middle of a factorisation, during which the interpreter takes no signals up."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator

from rote.data._temporary import close_all

__all__ = ["GRACE", "ending_soon"]

GRACE = 3.0
"""Seconds that the interpreter has to take a signal up."""


@contextlib.contextmanager
def ending_soon(*, patient: bool = False) -> Iterator[None]:
    """End the process some seconds after ctrl-C if the work has not ended by then, with temporary files removed.

    With `patient` the first ctrl-C waits for as long as it takes, and only a second one ends the process.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "set_wakeup_fd"):
        yield
        return
    ended = threading.Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    # The system's own call: it returns though the main thread is busy, as long as that has let go of the interpreter.
    watcher = threading.Thread(target=_watch, args=(reading, ended, 2 if patient else 1), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        os.close(writing)
        watcher.join()
        os.close(reading)


def _watch(reading: int, ended: threading.Event, needed: int) -> None:
    seen = 0
    while number := os.read(reading, 1):
        seen += number[0] in (signal.SIGINT, signal.SIGTERM)
        if seen >= needed and not ended.wait(GRACE):
            close_all()
            sys.stderr.write("\nrote: interrupted in the middle of a computation; nothing was left half-written.\n")
            sys.stderr.flush()
            os._exit(130)
