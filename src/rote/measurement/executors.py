"""Running groups on this machine: one after another in this process, or several processes beside each other."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from rote.errors import UnknownName, UsageError
from rote.measurement.machine import check_device, memory_bytes
from rote.measurement.sweeps import Executor, Group, Progress

__all__ = ["Local", "executor_of"]

_MOST_LOSSES = 3
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def executor_of(
    on: str = "local",
    *,
    address: str | None = None,
    jobs: int = 1,
    max_memory: int | str | None = None,
    device: str = "cpu",
) -> Executor:
    """Where groups are run, by name: local, or ray."""
    memory, place = memory_bytes(max_memory), check_device(device)
    if on not in ("local", "ray"):
        raise UnknownName("place to run on", on, ("local", "ray"))
    if on == "ray":
        from rote.measurement.on_ray import OnRay

        return OnRay(address, memory, place)
    if address is not None:
        raise UsageError("an address is that of a Ray cluster, and this runs locally; run on ray, or leave it out.")
    return Local(jobs, memory, place)


@dataclass(frozen=True)
class Local:
    """Groups on this machine, `jobs` at a time. A worker that dies takes only its own group with it."""

    jobs: int = 1
    max_memory: int | None = None
    device: str = "cpu"

    def results(self, groups: Sequence[Group], progress: Progress) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        if self.jobs <= 1 or len(groups) <= 1:
            for index, group in enumerate(groups):
                progress.running = len(group.cells)
                progress.show()
                yield index, group.runner(group.records(), max_memory=self.max_memory, device=self.device)
            return
        yield from self._beside(groups, progress)

    def _beside(self, groups: Sequence[Group], progress: Progress) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        share = None if self.max_memory is None else self.max_memory // self.jobs
        left = list(range(len(groups)))[::-1]
        losses: dict[int, int] = {}
        for name in _THREADS:
            # Workers inherit it: one process, one thread, also for what numpy calls.
            os.environ.setdefault(name, "1")
        while left:
            pool = ProcessPoolExecutor(
                self.jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(os.getpid(),)
            )
            running: dict[Future[list[dict[str, Any]]], int] = {}
            try:
                while left or running:
                    while left and len(running) < self.jobs:
                        # A group that has lost a worker runs alone, so that it alone is to blame if it loses another.
                        if losses.get(left[-1]) and running:
                            break
                        index = left.pop()
                        group = groups[index]
                        future = pool.submit(group.runner, group.records(), max_memory=share, device=self.device)
                        running[future] = index
                        if losses.get(index):
                            break
                    progress.running = sum(len(groups[i].cells) for i in running.values())
                    progress.show()
                    ready, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                    for future in ready:
                        result = future.result()
                        yield running.pop(future), result
            except BrokenProcessPool:
                for index in running.values():
                    losses[index] = losses.get(index, 0) + 1
                    if losses[index] >= _MOST_LOSSES:
                        reason = f"its worker died {_MOST_LOSSES} times, as when memory runs out"
                        yield index, [{"status": "failed", "reason": reason} for _ in groups[index].cells]
                    else:
                        left.append(index)
            finally:
                _end(pool)


def _begin(driver: int) -> None:
    """In a worker: ctrl-C is for the driver, and a worker without a driver ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _end(pool: ProcessPoolExecutor) -> None:
    """Stop the workers now: what they are working on is not kept anyway."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(5)
