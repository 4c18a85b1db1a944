"""A running explorer for the tests: `rote ui` as a process of its own, over a folder with a sweep and a figure.

`explorer` (one for all tests) and `short_explorer` (one that a test may end) are fixtures, registered in conftest.py.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from attacks.explorer import started

if TYPE_CHECKING:
    from rote.measurement import Sweep

__all__ = ["GRID", "Explorer", "explorer", "make_folder", "results_of", "server_of_this_process", "short_explorer"]

GRID = """
name = "heads"
seeds = 2
[base]
d_model = 4
context = 2
vocab = 30
[grid]
n_heads = [1, 2, 3, 4, 6, 8]
"""


@dataclass
class Explorer:
    """A running one."""

    address: str
    process: subprocess.Popen[bytes]
    scratch: Path
    folder: Path

    @property
    def port(self) -> int:
        return int(urlsplit(self.address).port or 0)

    def raw(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """(status, headers, body); the Host header is right unless given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def ask(self, path: str, record: object = None, method: str | None = None) -> Any:
        """JSON in, JSON out; a refusal is `{"error": ...}`."""
        body = None if record is None else json.dumps(record).encode()
        return json.loads(self.raw(method or ("GET" if body is None else "POST"), path, body)[2])

    def upload(self, name: str, content: bytes) -> Any:
        return json.loads(self.raw("POST", f"/api/uploads?name={name}", content)[2])

    def finished(self, id_: str, seconds: float = 60) -> Any:
        """A build, once it has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.ask(f"/api/builds/{id_}")
            if found["state"] not in ("queued", "running"):
                return found
            time.sleep(0.05)
        raise AssertionError(f"the build {id_} did not end: {found}")


def results_of(sweep: Sweep, heads: int) -> tuple[list[Any], list[dict[str, Any]]]:
    """The cells of so many heads, with made-up capacities on a line."""
    from rote.measurement import Cell

    cells = [cell for cell in sweep.cells if isinstance(cell, Cell) and cell.n_heads == heads]
    results = [
        {"status": "done", "capacity": 10 + 8 * cell.n_heads + cell.seed, "params": 100 * cell.n_heads, "duration": 0.2}
        for cell in cells
    ]
    return cells, results


def make_folder(folder: Path) -> None:
    """A grid, its results (whole), and an entry with a published point."""
    from rote.measurement import Journal, read_sweep

    folder.mkdir(parents=True)
    grid = folder / "heads.toml"
    grid.write_text(GRID, encoding="utf-8")
    sweep = read_sweep(grid)
    with Journal(folder / "heads.db") as journal:
        for heads in (1, 2, 3, 4, 6, 8):
            journal.put(sweep.name, *results_of(sweep, heads))
    entry = folder / "out" / "dana2025" / "exp1"
    entry.mkdir(parents=True)
    record = {
        "entry": "dana2025/exp1",
        "title": "Accuracy grows with the heads",
        "verdict": "holds",
        "sentence": "The slope is 8.0 facts a head.",
        "question": "Is it linear in H?",
        "deviations": ["fewer steps <b>than</b> the paper"],
        "mode": "quick",
        "command": "rote reproduce dana2025/exp1 --quick",
        "figures": [{"name": "figure", "caption": "", "alt": ""}],
    }
    series = [
        {"name": "measured", "kind": "points", "x": [1, 2], "y": [18, 26], "low": [17, 25], "high": [19, 27]},
        {"name": "the paper", "kind": "published", "x": [1, 2], "y": [17.5, 25.5], "low": None, "high": None},
    ]
    axes = {"x": {"label": "heads", "scale": "linear"}, "y": {"label": "facts", "scale": "linear"}}
    figure = {"title": "F", "panels": [{"title": "", **axes, "series": series}], "caption": "C", "alt": "A"}
    (entry / "entry.json").write_text(json.dumps(record), encoding="utf-8")
    (entry / "figure.json").write_text(json.dumps(figure), encoding="utf-8")


@contextlib.contextmanager
def run_explorer(folder: Path, scratch: Path, log: Path | None = None) -> Iterator[Explorer]:
    """Start one on a free port; end it as ctrl-C would."""
    with started(folder, scratch, log) as (process, port):
        yield Explorer(f"http://127.0.0.1:{port}", process, scratch, folder)


@contextlib.contextmanager
def server_of_this_process(folder: Path, *, workers: bool = True) -> Iterator[str]:
    """The explorer in this process, with what is registered in it; without `workers` it answers here too."""
    import uvicorn

    from rote.web.app import create_app
    from rote.web.server import bind
    from rote.web.state import State
    from rote.web.tasks import TASKS

    def call(task: str, args: Any, *, notice: Any = None, **rest: object) -> Any:
        return TASKS[task](dict(args), notice or (lambda record: None))

    state = State.for_folder(folder)
    if not workers:
        state.reader.worker.call = call  # type: ignore[method-assign]
    with bind(0) as listening:
        port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(create_app(state, port), log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()
            state.close()


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
