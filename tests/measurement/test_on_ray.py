"""A sweep on a real Ray cluster: a head and a second node on loopback, the second one killed while the sweep runs."""

from __future__ import annotations

import contextlib
import json
import os
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

import pytest

from rote.cli.main import run
from rote.measurement import Journal, read_sweep, run_sweep
from rote.measurement.executors import Local

_PATIENCE = 240
"""Seconds that a crowded machine may need for anything here."""

GRID = """
name = "nodes"
seeds = 2
[base]
task = "recall"
d_model = 6
context = 2
vocab = 12
n_facts = 40
steps = {steps}
[grid]
n_heads = [1, 2, 3, 4, 5, 6, 7, 8]
"""


def rows(db: Path) -> list[dict[str, Any]]:
    with Journal(db, write=False) as journal:
        return [{k: v for k, v in row.items() if k not in ("duration", "finished")} for row in journal.rows()]


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
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
        raise AssertionError(f"no {count} nodes: {asked.stderr.decode()[-500:]}")

    def kill(self, node: subprocess.Popen[bytes]) -> None:
        """All at once, as when the power goes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(node.pid, signal.SIGKILL)
        node.wait(30)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    # Sockets live in it, and their paths must be short.
    place = Path(tempfile.mkdtemp(prefix="rote-ray-"))
    made = Cluster(place)
    made.start("--head", f"--port={made.port}", "--include-dashboard=false", f"--temp-dir={place}")
    try:
        yield made
    finally:
        for node in made.nodes:
            made.kill(node)
        shutil.rmtree(place, ignore_errors=True)


def test_a_lost_node_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "nodes.toml"
    file.write_text(GRID.format(steps=400))
    cluster.wait_for(1)
    second = cluster.start(f"--address={cluster.address}")
    cluster.wait_for(2)
    there = tmp_path / "there.db"
    command = [sys.executable, "-m", "rote", "sweep", str(file), "--db", str(there), "--on", "ray", "--json"]
    driver = subprocess.Popen(
        [*command, "--address", cluster.address],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        # The node dies when the first results are there, and so while others are being made.
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and driver.poll() is None:
            if there.exists() and _count(there) >= 2:
                break
            time.sleep(0.1)
        assert driver.poll() is None, "the sweep was over before the node could be killed"
        cluster.kill(second)
        out, err = driver.communicate(timeout=_PATIENCE)
    finally:
        driver.kill()
    assert driver.returncode == 0, err.decode()[-800:]
    report = json.loads(out)
    assert (report["cells"], report["done"], report["failed"]) == (16, 16, 0)
    here = tmp_path / "here.db"
    with Journal(here) as journal:
        run_sweep(read_sweep(file), journal, Local())
    assert rows(here) == rows(there)


def _count(db: Path) -> int:
    try:
        with Journal(db, write=False) as journal:
            return len(journal.statuses())
    except Exception:
        return 0


def test_nobody_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "nodes.toml"
    file.write_text(GRID.format(steps=5))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    for address in (f"127.0.0.1:{free}", "somewhere", "127.0.0.1:99999"):
        words = ["sweep", str(file), "--db", str(tmp_path / "r.db"), "--on", "ray", "--address", address]
        assert run(words) == 2
        assert address in capsys.readouterr().err
    assert run(["sweep", str(file), "--db", str(tmp_path / "r.db"), "--address", "auto"]) == 2
    assert run(["sweep", str(file), "--db", str(tmp_path / "r.db"), "--on", "rya"]) == 2
