"""Ctrl-C in the middle of a computation that the interpreter cannot interrupt."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

_WORK = """
import ctypes, signal, sys
from pathlib import Path
from rote.cli._interrupts import ending_soon
from rote.data._temporary import Temporary

signal.signal(signal.SIGINT, signal.default_int_handler)
part = Temporary(Path(sys.argv[1]), "model", directory=True)
with ending_soon(patient=sys.argv[2] == "patient"):
    # As in a factorisation, the interpreter is free for other threads, and the main one takes nothing up.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    print("ready", flush=True)
    ctypes.CDLL(None).sleep(600)
"""


def _started(place: Path, how: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _WORK, str(place), how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    assert len(list(place.iterdir())) == 1
    time.sleep(1)  # until it sleeps
    return process


def test_a_deaf_computation_is_ended_and_nothing_is_left(tmp_path: Path) -> None:
    process = _started(tmp_path, "hasty")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130 and "in the middle of a computation" in said
    assert list(tmp_path.iterdir()) == []


def test_what_is_to_be_kept_is_waited_for_until_told_twice(tmp_path: Path) -> None:
    process = _started(tmp_path, "patient")
    process.send_signal(signal.SIGINT)
    time.sleep(4)
    assert process.poll() is None, "one is not enough"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130 and list(tmp_path.iterdir()) == []
