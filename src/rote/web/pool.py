"""A process that does one thing at a time, asked in lines of JSON; it is started when it is first needed.

Killing it is how work is cancelled: nothing that it computes can be in the server's way, and the next question starts
a new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rote.errors import RoteError

__all__ = ["Gone", "Late", "Refused", "Worker"]

Notice = Callable[[dict[str, Any]], None]


class Refused(RoteError):
    """The worker refused, in one sentence."""


class Gone(RoteError):
    """The worker ended before it answered: it was stopped, or it ran out of memory."""


class Late(RoteError):
    """The worker took longer than it was given."""


class Worker:
    """One process. `call` waits for its turn; `stop` ends what runs now.

    Its temporary files go into `scratch`, which is emptied when a new process takes the place of one that was ended.
    """

    def __init__(self, name: str, scratch: Path | None = None) -> None:
        self.name = name
        self.scratch = scratch
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()
        self._start = threading.Lock()
        self._ticket: object = None
        self._warming: threading.Thread | None = None
        self._closed = False

    def _running(self) -> subprocess.Popen[bytes]:
        with self._start:
            if self._closed:
                raise Gone("the explorer is closing.")
            if self._process is None or self._process.poll() is not None:
                if self._process is not None:
                    _discard(self._process)
                env = dict(os.environ)
                # Leave a core to the server and the page.
                env.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 2) - 1)))
                home = str(Path(__file__).resolve().parents[2])
                env["PYTHONPATH"] = os.pathsep.join([home, *filter(None, [env.get("PYTHONPATH")])])
                if self.scratch is not None:
                    shutil.rmtree(self.scratch, ignore_errors=True)
                    self.scratch.mkdir(parents=True)
                    env["TMPDIR"] = str(self.scratch)
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "rote.web.worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=env,
                    # ctrl-C is for the server, which ends its workers itself.
                    start_new_session=True,
                )
            return self._process

    def warm(self) -> None:
        """Start the process and let it load what it needs, without waiting for it."""
        with self._start:
            if self._warming is not None and self._warming.is_alive():
                return
            self._warming = threading.Thread(target=self._warm, name=f"rote-ui-warm-{self.name}", daemon=True)
            self._warming.start()

    def _warm(self) -> None:
        with contextlib.suppress(RoteError):
            self.call("warm", {})

    def call(
        self,
        task: str,
        args: Mapping[str, Any],
        *,
        notice: Notice | None = None,
        seconds: float | None = None,
        ticket: object = None,
    ) -> Any:
        """The result of a task; refusals, an early end and lateness are raised. `ticket` is for `stop`."""
        with self._turn:
            process = self._running()
            with self._start:
                self._ticket = ticket
            late = threading.Event()
            timer = None
            if seconds is not None:
                timer = threading.Timer(seconds, self._too_late, (process, late))
                timer.daemon = True
                timer.start()
            try:
                return self._talk(process, task, args, notice)
            except (Gone, OSError, ValueError) as error:
                _discard(process)
                if late.is_set():
                    raise Late(f"this took longer than {seconds:.0f} seconds and was stopped.") from None
                raise Gone("the work was stopped before it was done.") from error
            finally:
                with self._start:
                    self._ticket = None
                if timer is not None:
                    timer.cancel()

    def _too_late(self, process: subprocess.Popen[bytes], late: threading.Event) -> None:
        late.set()
        process.kill()

    def _talk(self, process: subprocess.Popen[bytes], task: str, args: Mapping[str, Any], notice: Notice | None) -> Any:
        assert process.stdin is not None and process.stdout is not None, "both are pipes"
        process.stdin.write(json.dumps({"task": task, "args": args}).encode() + b"\n")
        process.stdin.flush()
        for line in process.stdout:
            answer = json.loads(line)
            if "done" in answer:
                return answer["done"]
            if "refused" in answer:
                raise Refused(answer["refused"])
            if notice is not None:
                notice(answer["notice"])
        raise Gone("the work was stopped before it was done.")

    def stop(self, ticket: object = None) -> None:
        """End what runs now; with a ticket, only if it runs for that one."""
        with self._start:
            process = self._process
            if process is not None and process.poll() is None and ticket in (None, self._ticket):
                process.kill()

    def close(self) -> None:
        """End for good."""
        with self._start:
            self._closed = True
        self.stop()
        # Whoever waits for an answer finds the process gone, and only then are its pipes closed.
        with self._turn:
            if self._process is not None:
                _discard(self._process)


def _discard(process: subprocess.Popen[bytes]) -> None:
    """End a process and close its pipes."""
    with contextlib.suppress(OSError):
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
