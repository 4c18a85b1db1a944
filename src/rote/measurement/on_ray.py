"""Running groups on a Ray cluster: the same work, on other machines. Only the driver writes results."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rote.errors import MissingExtra, UsageError
from rote.measurement.sweeps import Group, Progress

__all__ = ["OnRay"]

_MOST_LOSSES = 5
_KNOCK_SECONDS = 10
_AHEAD = 2
"""Groups in flight for each CPU of the cluster: workers never wait for the driver, and little is lost with a node."""


def _ray() -> Any:
    # A research tool on a cluster calls home for nobody.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", "ray", "a sweep on a Ray cluster") from None
    return ray


@dataclass(frozen=True)
class OnRay:
    """Groups as Ray tasks on the cluster at `address`; without one, a cluster on this machine is started and ended.

    A group whose worker or node is lost is run again, up to five times in all.
    """

    address: str | None = None
    max_memory: int | None = None
    device: str = "cpu"

    def results(self, groups: Sequence[Group], progress: Progress) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        if not groups:
            return
        ray = _ray()
        self._connect(ray)
        try:
            yield from self._run(ray, groups, progress)
        finally:
            ray.shutdown()

    def _connect(self, ray: Any) -> None:
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address is None:
            ray.init(address="local", include_dashboard=False, **quiet)
            return
        self._knock()
        try:
            ray.init(address=self.address, **quiet)
        except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise UsageError(
                f"no Ray cluster answers at {self.address} ({first[:200]}); start one with `ray start --head`, or "
                "give no address."
            ) from None

    def _knock(self) -> None:
        """Ray itself tries for minutes before it says that nobody is there."""
        place = re.fullmatch(r"(?:ray://)?([^/:]+|\[[^\]]+\]):(\d{1,5})", self.address or "")
        if place is None:
            if self.address == "auto":
                return
            raise UsageError(f"an address is HOST:PORT, ray://HOST:PORT or auto, got {self.address!r}.")
        try:
            socket.create_connection((place[1].strip("[]"), int(place[2])), timeout=_KNOCK_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise UsageError(
                f"nobody answers at {self.address} ({error}); start a cluster with `ray start --head`, or give "
                "no address."
            ) from None

    def _run(self, ray: Any, groups: Sequence[Group], progress: Progress) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        # Losses are counted here, so that each of them is known; Ray's own retries are off.
        runners = {group.runner for group in groups}
        work = {runner: ray.remote(num_cpus=1, max_retries=0)(runner) for runner in runners}
        left = list(range(len(groups)))[::-1]
        losses = [0] * len(groups)
        running: dict[Any, int] = {}
        lost = (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError,
                ray.exceptions.OwnerDiedError, ray.exceptions.OutOfMemoryError, ray.exceptions.RaySystemError,
                ray.exceptions.TaskUnschedulableError)  # fmt: skip
        while left or running:
            slots = max(1, int(_AHEAD * ray.cluster_resources().get("CPU", 1)))
            while left and len(running) < slots:
                index = left.pop()
                group = groups[index]
                task = work[group.runner].remote(group.records(), max_memory=self.max_memory, device=self.device)
                running[task] = index
            progress.running = sum(len(groups[index].cells) for index in running.values())
            progress.show()
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
                    reason = f"its worker was lost {_MOST_LOSSES} times ({type(error).__name__})"
                    result = [{"status": "failed", "reason": reason} for _ in groups[index].cells]
                except ray.exceptions.RayTaskError as error:
                    reason = f"{type(error.cause).__name__}: {error.cause}"[:300]
                    result = [{"status": "failed", "reason": reason} for _ in groups[index].cells]
                yield index, result
