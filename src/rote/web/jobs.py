"""The queue of builds: one runs, the others wait with a position, each can be cancelled, all are remembered."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rote.errors import RoteError, UsageError
from rote.web.desk import Busy
from rote.web.pool import Gone, Worker

__all__ = ["Build", "Builds", "State"]

State = Literal["queued", "running", "done", "failed", "cancelled"]
MOST_KEPT = 60
MOST_QUEUED = 40


@dataclass
class Build:
    """One build, from the request to the certificate."""

    id: str
    title: str
    args: dict[str, Any]
    command: str
    home: Path
    """All that it writes: the model, its zip, and whatever lies about while it is made."""
    source: dict[str, Any]
    state: State = "queued"
    stage: str = ""
    done: int = 0
    total: int = 0
    recalled: int | None = None
    n_facts: int | None = None
    message: str = ""
    certificate: dict[str, Any] | None = None
    sheet: dict[str, Any] | None = None
    """The certificate for people."""
    made: float = field(default_factory=time.time)
    began: float | None = None
    ended: float | None = None
    cancelled: bool = False

    @property
    def folder(self) -> Path:
        """The model directory."""
        return self.home / "model"

    @property
    def zip(self) -> Path:
        return self.home / "model.zip"

    def clear(self) -> None:
        """Remove its files."""
        shutil.rmtree(self.home, ignore_errors=True)

    def record(self, position: int | None) -> dict[str, Any]:
        """What the page is told."""
        last = self.ended if self.ended is not None else time.time()
        return {
            "id": self.id,
            "title": self.title,
            "state": self.state,
            "position": position,
            "stage": self.stage,
            "done": self.done,
            "total": self.total,
            "recalled": self.recalled,
            "n_facts": self.n_facts,
            "message": self.message,
            "command": self.command,
            "seconds": None if self.began is None else round(last - self.began, 2),
        }


class Builds:
    """Builds in the order of their making; a thread hands them to the worker one by one."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._all: dict[str, Build] = {}
        self._change = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="rote-ui-builds", daemon=True)
        self._thread.start()

    def add(self, build: Build) -> None:
        with self._change:
            waiting = sum(1 for one in self._all.values() if one.state in ("queued", "running"))
            if waiting >= MOST_QUEUED:
                raise Busy(f"{waiting} builds are waiting already; cancel some, or let them finish")
            self._all[build.id] = build
            # The oldest make room, those that came to nothing first.
            over = [one for one in self._all.values() if one.state in ("failed", "cancelled", "done")]
            over.sort(key=lambda one: one.state == "done")
            old = over[: max(0, len(self._all) - MOST_KEPT)]
            for one in old:
                del self._all[one.id]
            self._change.notify_all()
        for one in old:
            one.clear()

    def get(self, id_: str) -> Build:
        found = self._all.get(id_)
        if found is None:
            raise UsageError("there is no such build; it was made by an explorer that has ended.")
        return found

    def finished(self) -> list[Build]:
        with self._change:
            return [build for build in self._all.values() if build.state == "done"]

    def sources_in_use(self) -> frozenset[str]:
        """Uploads that builds still need: to be built, or to be asked about."""
        with self._change:
            return frozenset(
                str(build.source.get("upload"))
                for build in self._all.values()
                if build.state in ("queued", "running", "done")
            )

    def record(self, id_: str) -> tuple[Build, dict[str, Any]]:
        """One build, and what the page is told about it."""
        with self._change:
            return self.get(id_), next(one for one in self.records() if one["id"] == id_)

    def records(self) -> list[dict[str, Any]]:
        """All builds, newest first."""
        with self._change:
            waiting = [build.id for build in self._all.values() if build.state == "queued"]
            return [
                build.record(waiting.index(build.id) + 1 if build.state == "queued" else None)
                for build in reversed(self._all.values())
            ]

    def cancel(self, id_: str) -> None:
        """Take it out of the queue, or stop it; what is finished stays as it is."""
        with self._change:
            build = self.get(id_)
            if build.state == "queued":
                build.state, build.ended = "cancelled", time.time()
            elif build.state == "running":
                build.cancelled = True
                self.worker.stop()

    def forget(self, id_: str) -> None:
        """Remove a finished build from the list, and its files."""
        with self._change:
            build = self.get(id_)
            if build.state in ("queued", "running"):
                raise UsageError("this build is not finished; cancel it first.")
            del self._all[id_]
        build.clear()

    def close(self) -> None:
        with self._change:
            self._closed = True
            self._change.notify_all()
        self.worker.close()
        self._thread.join(timeout=10)

    def _next(self) -> Build | None:
        with self._change:
            while not self._closed:
                build = next((one for one in self._all.values() if one.state == "queued"), None)
                if build is not None:
                    build.state, build.began = "running", time.time()
                    return build
                self._change.wait()
        return None

    def _run(self) -> None:
        while (build := self._next()) is not None:
            state, message, result = self._built(build)
            if state != "done":
                build.clear()
            with self._change:
                build.message, build.ended = message, time.time()
                build.certificate, build.sheet = result.get("certificate"), result.get("sheet")
                build.state = state
            if state == "cancelled" and not self._closed:
                self.worker.warm()

    def _built(self, build: Build) -> tuple[State, str, dict[str, Any]]:
        def notice(record: Mapping[str, Any]) -> None:
            if build.cancelled:
                # Cancelled before the process was there to be stopped.
                raise Gone("the build was cancelled.")
            build.stage, build.done, build.total = record["stage"], record["done"], record["total"]
            build.recalled, build.n_facts = record["recalled"], record["n_facts"]

        try:
            result = self.worker.call("build", {**build.args, "folder": str(build.folder)}, notice=notice)
        except Gone as error:
            return ("cancelled", "", {}) if build.cancelled else ("failed", f"{error} Was there enough memory?", {})
        except RoteError as error:
            return "failed", str(error), {}
        if build.cancelled:
            return "cancelled", "", {}
        return "done", "", result
