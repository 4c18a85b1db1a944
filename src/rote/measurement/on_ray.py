"""Running groups on a Ray cluster: the same work, on other machines. Only the driver writes results."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rote.measurement.sweeps import Group, Progress
from rote.solvers.cluster import Call, Cluster, Failure

__all__ = ["OnRay"]


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

        def call(index: int) -> Call:
            group = groups[index]
            return Call(group.runner, (group.records(),), {"max_memory": self.max_memory, "device": self.device})

        def tick(running: Collection[int]) -> None:
            progress.running = sum(len(groups[index].cells) for index in running)
            progress.show()

        with Cluster.at(self.address, "a sweep on a Ray cluster") as cluster:
            for index, result in cluster.results(len(groups), call, tick):
                if isinstance(result, Failure):
                    yield index, [{"status": "failed", "reason": result.reason} for _ in groups[index].cells]
                else:
                    yield index, result
