"""Work on a Ray cluster: calls of functions, each by itself, run again where a worker or a node is lost."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rote.errors import MissingExtra, UsageError

__all__ = ["Call", "Cluster", "Failure"]

_MOST_LOSSES = 5
_KNOCK_SECONDS = 10
_AHEAD = 2
"""Calls in flight for each CPU of the cluster: workers never wait for the driver, and little is lost with a node."""


@dataclass(frozen=True)
class Call:
    """A function of a module, so that other machines find it by name, and what it is called with."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """Why a call has no result: what it raised, or how often its worker was lost."""

    reason: str
    error: Exception | None = None


@dataclass(frozen=True)
class Cluster:
    """A connection to a cluster. `Cluster.at` opens and ends it."""

    ray: Any

    @classmethod
    @contextlib.contextmanager
    def at(cls, address: str | None, purpose: str) -> Iterator[Cluster]:
        """The cluster at an address; without one, a cluster on this machine is started and ended.

        Ray tells of lost nodes on standard output, which is for results; its messages go to standard error.
        """
        ray = _ray(purpose)
        with contextlib.redirect_stdout(sys.stderr):
            _connect(ray, address)
            try:
                yield cls(ray)
            finally:
                ray.shutdown()

    def results(
        self, count: int, call: Callable[[int], Call], tick: Callable[[Collection[int]], None] = lambda _: None
    ) -> Generator[tuple[int, Any], None, None]:
        """(i, result or Failure) of call(0), ..., call(count - 1), as they come; a lost one is run again, up to five
        times in all. `tick` is told every second or so which are running."""
        ray = self.ray
        lost = (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError,
                ray.exceptions.OwnerDiedError, ray.exceptions.OutOfMemoryError, ray.exceptions.RaySystemError,
                ray.exceptions.TaskUnschedulableError)  # fmt: skip
        work: dict[Callable[..., Any], Any] = {}
        left = list(range(count))[::-1]
        losses = [0] * count
        running: dict[Any, int] = {}
        try:
            while left or running:
                slots = max(1, int(_AHEAD * ray.cluster_resources().get("CPU", 1)))
                while left and len(running) < slots:
                    index = left.pop()
                    one = call(index)
                    if one.function not in work:
                        # Losses are counted here, so that each of them is known; Ray's own retries are off.
                        work[one.function] = ray.remote(num_cpus=1, max_retries=0)(one.function)
                    running[work[one.function].remote(*one.arguments, **one.keywords)] = index
                tick(running.values())
                ready, _ = ray.wait(list(running), timeout=1.0)
                for task in ready:
                    index = running.pop(task)
                    try:
                        result = ray.get(task)
                    except lost as error:
                        losses[index] += 1
                        if losses[index] < _MOST_LOSSES:
                            left.append(index)
                            continue
                        result = Failure(f"its worker was lost {_MOST_LOSSES} times ({type(error).__name__})")
                    except ray.exceptions.RayTaskError as error:
                        cause = error.cause
                        result = Failure(f"{type(cause).__name__}: {cause}"[:300], cause)
                    yield index, result
        finally:
            for task in running:
                ray.cancel(task, force=True)


def _ray(purpose: str) -> Any:
    # A research tool on a cluster calls home for nobody.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", "ray", purpose) from None
    return ray


def _connect(ray: Any, address: str | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        ray.init(address="local", include_dashboard=False, **quiet)
        return
    _knock(address)
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(
            f"no Ray cluster answers at {address} ({first[:200]}); start one with `ray start --head`, or "
            "give no address."
        ) from None


def _knock(address: str) -> None:
    """Ray itself tries for minutes before it says that nobody is there."""
    place = re.fullmatch(r"(?:ray://)?([^/:]+|\[[^\]]+\]):(\d{1,5})", address)
    if place is None:
        if address == "auto":
            return
        raise UsageError(f"an address is HOST:PORT, ray://HOST:PORT or auto, got {address!r}.")
    try:
        socket.create_connection((place[1].strip("[]"), int(place[2])), timeout=_KNOCK_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"nobody answers at {address} ({error}); start a cluster with `ray start --head`, or give no address."
        ) from None
