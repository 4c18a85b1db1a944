"""Ray under fire: nodes, workers and drivers of a sweep are killed while it runs.

A cluster of two nodes on loopback is started for the campaign. After every kill the sweep goes on, or is started again,
and in the end its rows must be those of an undisturbed sweep on this machine.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attacks.campaign import Trial

title = "sweeps on a Ray cluster whose nodes, workers and drivers are killed"
promise = "no row is lost, none is there twice, and all are as on an undisturbed machine"

_PATIENCE = 240
"""Seconds that a crowded machine may need for anything here."""
_SWEEP = """
name = "nodes"
seeds = 2
[base]
task = "recall"
d_model = 6
context = 2
vocab = 12
n_facts = 40
steps = 300
[grid]
n_heads = [1, 2, 3, 4, 5, 6]
"""
_CELLS = 12


def environment() -> dict[str, str]:
    """That of this process, without what Ray has set in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    paths = os.pathsep.join(path for path in sys.path if path)
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1", "RAY_DISABLE_MEMORY_MONITOR": "1"}
    return {**kept, **quiet, "PYTHONPATH": paths, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


class Cluster:
    """Ray processes that are ours alone: each node is a session of its own, ended as one."""

    def __init__(self, place: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.place = place
        self.nodes: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--node-ip-address=127.0.0.1", "--num-cpus=1"]
        memory = ["--object-store-memory=80000000", "--disable-usage-stats", "--block"]
        with (self.place / f"node{len(self.nodes)}.log").open("wb") as log:
            node = subprocess.Popen(
                [*command, *memory, *words], env=environment(), stdout=log, stderr=log, start_new_session=True
            )
        self.nodes.append(node)
        return node

    def join(self) -> subprocess.Popen[bytes]:
        """One more node, alive."""
        node = self.start(f"--address={self.address}")
        self.wait_for(2)
        return node

    def wait_for(self, count: int) -> None:
        """Until so many nodes are alive; asked in a process of its own."""
        script = (
            "import ray, sys, time\n"
            f"ray.init(address={self.address!r}, log_to_driver=False, logging_level='ERROR')\n"
            f"while sum(n['Alive'] for n in ray.nodes()) < {count}: time.sleep(0.2)\n"
        )
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            asked = subprocess.run(
                [sys.executable, "-c", script], env=environment(), capture_output=True, timeout=_PATIENCE, check=False
            )
            if asked.returncode == 0:
                return
            time.sleep(1)
        raise RuntimeError(f"no {count} nodes: {asked.stderr.decode()[-500:]}")

    def kill(self, node: subprocess.Popen[bytes]) -> None:
        """All at once, as when the power goes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(node.pid, signal.SIGKILL)
        node.wait(30)

    def workers(self) -> list[int]:
        """Processes of the nodes that run tasks (Linux)."""
        sessions = {node.pid for node in self.nodes if node.poll() is None}
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                name = (place / "cmdline").read_bytes()
                task = name.startswith(b"ray::") and b"Agent" not in name
                if task and os.getsid(int(place.name)) in sessions:
                    found.append(int(place.name))
        return sorted(found)


@contextlib.contextmanager
def running() -> Iterator[Cluster]:
    """A cluster with one node, ended with everything that belongs to it."""
    # Sockets live in it, and their paths must be short.
    place = Path(tempfile.mkdtemp(prefix="rote-ray-"))
    made = Cluster(place)
    made.start("--head", f"--port={made.port}", "--include-dashboard=false", f"--temp-dir={place}")
    try:
        made.wait_for(1)
        yield made
    finally:
        for node in made.nodes:
            made.kill(node)
        shutil.rmtree(place, ignore_errors=True)


def rows(database: Path) -> list[dict[str, Any]]:
    """The rows of a sweep without what a clock says."""
    from rote.measurement import Journal

    if not database.exists():
        return []
    with Journal(database, write=False) as journal:
        return [{k: v for k, v in row.items() if k not in ("duration", "finished")} for row in journal.rows()]


def _done(database: Path) -> int:
    try:
        return len(rows(database))
    except Exception:  # it is being created
        return 0


def trials(seed: int, workplace: Path) -> Iterator[Trial]:
    """One sweep with one victim after the other, without end."""
    from rote.measurement import Journal, read_sweep, run_sweep
    from rote.measurement.executors import Local

    drawn = random.Random(seed)
    file, calm = workplace / "sweep.toml", workplace / "calm.db"
    file.write_text(_SWEEP, encoding="utf-8")
    with Journal(calm) as journal:
        run_sweep(read_sweep(file), journal, Local())
    wanted = rows(calm)
    with running() as cluster:
        second = cluster.join()
        number = 0
        while True:
            victim, after = drawn.choice(["node", "worker", "driver"]), drawn.randrange(_CELLS - 2)
            what = f"sweep {number}, a {victim} dies after {after} rows"
            database = workplace / f"shaken{number}.db"
            struck = _shaken(cluster, second, victim, after, file, database)
            if victim == "node":
                second = cluster.join()
            if not struck:
                yield Trial(what, group="over before the kill")
            else:
                again = _sweep(cluster, file, database).wait(_PATIENCE)
                failure = "" if rows(database) == wanted else f"{_done(database)} rows, not the {len(wanted)} wanted"
                yield Trial(what, failure or (f"exit code {again}" if again else ""), group=victim)
            number += 1


def _sweep(cluster: Cluster, file: Path, database: Path) -> subprocess.Popen[bytes]:
    words = ["sweep", str(file), "--db", str(database), "--on", "ray", "--address", cluster.address, "--json"]
    return subprocess.Popen(
        [sys.executable, "-m", "rote", *words],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _shaken(
    cluster: Cluster, second: subprocess.Popen[bytes], victim: str, after: int, file: Path, database: Path
) -> bool:
    """Run a sweep and kill when it has so many rows; whether there was something to kill."""
    driver = _sweep(cluster, file, database)
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and driver.poll() is None and (not database.exists() or _done(database) < after):
        time.sleep(0.05)
    if driver.poll() is not None:
        return False
    if victim == "node":
        cluster.kill(second)
    elif victim == "worker":
        for worker in cluster.workers()[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
    else:
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait(_PATIENCE)
    return True
