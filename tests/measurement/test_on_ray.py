"""A sweep on a real Ray cluster: a head and a second node on loopback, the second one killed while the sweep runs."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks.cluster import Cluster, environment, rows, running
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


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with running() as made:
        yield made


def test_a_lost_node_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "nodes.toml"
    file.write_text(GRID.format(steps=400))
    second = cluster.join()
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
