"""A running explorer: `rote ui` as a process of its own, over a folder with a sweep, a figure and a model."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from web_server import Explorer, make_folder


@contextlib.contextmanager
def run_explorer(folder: Path, scratch: Path) -> Iterator[Explorer]:
    """Start one on a free port; end it as ctrl-C would."""
    scratch.mkdir(exist_ok=True)
    env = {**os.environ, "TMPDIR": str(scratch), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "rote", "ui", "--port", "0", "--no-browser", "--json", "--dir", str(folder)],
        stdout=subprocess.PIPE,
        env=env,
    )
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        yield Explorer(address.rstrip("/"), process, scratch, folder)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=20)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture(scope="session")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    base = tmp_path_factory.mktemp("explorer")
    make_folder(base / "folder")
    with run_explorer(base / "folder", base / "scratch") as running:
        yield running


@pytest.fixture
def short_explorer(tmp_path: Path) -> Iterator[Explorer]:
    """One that a test may end itself."""
    make_folder(tmp_path / "folder")
    with run_explorer(tmp_path / "folder", tmp_path / "scratch") as running:
        yield running
