"""The explorer under requests that are malformed, huge, slow and many, while somebody else looks at its pages."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from attacks.campaign import Trial
from attacks.explorer_requests import NO_ID, Attack, draw, flood, request

__all__ = ["promise", "started", "title", "trials"]

title = "malformed, huge, slow and many requests to the explorer"
promise = (
    "every answer is below 500, or a 503 that says when to come back; pages and their parts come within a second all "
    "the while; half-sent requests are dropped; the server lives, its log is empty, and nothing is left behind"
)

PAGE_SECONDS = 1.0
"""The longest that a page may take, whatever goes on."""
_HANG_SECONDS = 100.0
_CUT_SECONDS = 20.0
_CLIENTS = 12
_FIRST, _LATER = 120, 900
"""Attacks on the first server, so that a short run sees all of it, and on each later one."""
_EVERY = 60
"""A flood after so many attacks."""


@contextlib.contextmanager
def started(folder: Path, scratch: Path, log: Path | None = None) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`rote ui` over a folder on a free port, as (process, port); it is ended as ctrl-C would."""
    scratch.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "TMPDIR": str(scratch), "OMP_NUM_THREADS": "1"}
    with contextlib.ExitStack() as stack:
        errors = None if log is None else stack.enter_context(log.open("wb"))
        words = ("ui", "--port", "0", "--no-browser", "--json", "--dir", str(folder))
        process = stack.enter_context(
            subprocess.Popen([sys.executable, "-m", "rote", *words], stdout=subprocess.PIPE, stderr=errors, env=env)
        )
        try:
            assert process.stdout is not None
            yield process, int(json.loads(process.stdout.readline())["address"].rstrip("/").rsplit(":", 1)[1])
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(timeout=30)


@dataclass
class _Target:
    """A server under attack: where it is, and the ids that its answers have named."""

    port: int
    ids: dict[bytes, bytes] = field(default_factory=dict)

    def filled(self, sent: bytes) -> bytes:
        """What was drawn, with the address and ids of this server."""
        if sent.count(b"@") < 2 and b"@host" not in sent:
            return sent
        sent = sent.replace(b"@host", b"127.0.0.1:%d" % self.port)
        return re.sub(rb"@(build|model|run|entry|report|upload)@+", lambda m: self.ids.get(m[1], NO_ID), sent)

    def connect(self, seconds: float) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=seconds)

    def ask(self, sent: bytes, seconds: float = _HANG_SECONDS) -> bytes:
        """The first answer to a request, as it comes."""
        with self.connect(seconds) as line:
            line.sendall(self.filled(sent))
            return _answer(line)

    def learn(self, path: str, kind: bytes, part: bytes) -> None:
        """Remember the first id of a part of a listing."""
        found = re.search(rb'"id":"([0-9a-f]{12})"', self.ask(request("GET", path)).partition(part)[2])
        if found:
            self.ids[kind] = found[1]


def _answer(line: socket.socket) -> bytes:
    """One answer: head and body, as long as the head says."""
    got = b""
    while b"\r\n\r\n" not in got:
        piece = line.recv(1 << 16)
        if not piece:
            return got
        got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    pieces, left = [body], (int(length[1]) if length else 0) - len(body)
    while left > 0 and (piece := line.recv(1 << 16)):
        pieces.append(piece)
        left -= len(piece)
    return head + b"\r\n\r\n" + b"".join(pieces)


def _judged(answer: bytes, attack: Attack) -> str:
    """What is wrong with an answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status = re.match(rb"HTTP/1\.1 (\d\d\d) ", head)
    if status is None:
        return "no answer" if attack.sound or answer else ""
    number, shown = int(status[1]), f"{head[:40]!r} ... {body[:300]!r}"
    if b"a fault in rote itself" in body or b"Traceback" in body:
        return f"a fault: {shown}"
    if number >= 500 and (number != 503 or b"retry-after" not in head.lower()):
        return f"status {number}: {shown}"
    if number >= 400 and not body.strip() and not attack.pieces[0].startswith(b"HEAD"):
        return f"refused without a sentence: {shown}"
    return ""


def _strike(target: _Target, attack: Attack) -> str:
    """Send an attack; what happened that must not."""
    try:
        line = target.connect(30.0)
    except OSError as error:
        return f"no connection: {error}"
    with line:
        if attack.reading == "until cut":
            return _until_cut(target, line, attack)
        line.settimeout(_HANG_SECONDS)
        answer = b""
        try:
            for piece in attack.pieces:
                line.sendall(target.filled(piece))
            if attack.reading in ("nothing", "little"):
                time.sleep(attack.pause)
                return "" if attack.reading == "nothing" else _judged(line.recv(20_000), attack)
            if attack.pieces[0] and not _whole(attack.pieces[0]):
                line.shutdown(socket.SHUT_WR)
            answer = _answer(line)
        except TimeoutError:
            return f"no answer in {_HANG_SECONDS:.0f} s"
        except OSError:
            # Cut while it sent: allowed for what is refused before it is whole.
            return "cut off" if attack.sound else ""
    for kind, found in re.findall(rb'"(id|address)":"(?:/report/)?([0-9a-f]{12})"', answer):
        name = b"report" if kind == b"address" else b"upload" if b'"label"' in answer else b"build"
        if attack.pieces[0].startswith(b"POST"):
            target.ids[name] = found
    return _judged(answer, attack)


def _whole(sent: bytes) -> bool:
    """Whether a server could take this for a whole request; otherwise it may wait for more."""
    head, end, body = sent.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: (\d+)\r\n", head + b"\r\n", re.IGNORECASE)
    return bool(end) and len(body) >= (int(length[1]) if length else 0)


def _until_cut(target: _Target, line: socket.socket, attack: Attack) -> str:
    """Send bit by bit; the server has to end it."""
    began = time.monotonic()
    line.settimeout(0.05)
    pieces = list(attack.pieces)
    while time.monotonic() - began < _CUT_SECONDS:
        try:
            if pieces:
                line.sendall(target.filled(pieces.pop(0)))
            if not line.recv(1 << 16):
                return ""
        except TimeoutError:
            time.sleep(attack.pause or 0.5)
        except OSError:
            return ""
    return f"half a request was still waited for after {_CUT_SECONDS:.0f} s"


@contextlib.contextmanager
def _visited(port: int) -> Iterator[dict[str, Any]]:
    """Somebody fetches a page and one of its parts all the while; at the end the record says how that went."""
    record: dict[str, Any] = {}
    words = [sys.executable, "-m", "attacks.explorer_visitor", str(port)]
    home = Path(__file__).resolve().parents[1]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=home) as visitor:
        try:
            yield record
        finally:
            record |= json.loads(visitor.communicate(timeout=120)[0])
    late = (f"{path} took {seconds:.1f} s" for path, seconds in record["slowest"].items() if seconds > PAGE_SECONDS)
    record["failures"] += late


def trials(seed: int, workplace: Path) -> Iterator[Trial]:
    """Servers, one after another; what became of a server is told before the attacks on it."""
    folder = workplace / "folder"
    _furnish(folder)
    yield from _session(seed, 0, folder, workplace)
    words = ("build", "elements", "-o", str(folder / "kept"), "--with", "dana2025_cor1", "--json")
    subprocess.run([sys.executable, "-m", "rote", *words], check=True, capture_output=True)
    for number in count(1):
        yield from _session(seed, number, folder, workplace)


def _session(seed: int, number: int, folder: Path, workplace: Path) -> list[Trial]:
    rng = Random(f"{seed} {number}")
    attacks = []
    for i in range(_LATER if number else _FIRST):
        attacks.append(draw(rng) if (i + 1) % _EVERY else flood(rng))
    scratch, log = workplace / "scratch", workplace / f"log-{number}"
    killed = number % 3 == 2
    faults: list[str] = []
    with started(folder, scratch, log) as (process, port):
        target = _Target(port)
        target.learn("/api/models", b"model", b'"models"')
        target.learn("/api/runs", b"run", b'"results"')
        target.learn("/api/runs", b"entry", b'"entries"')
        with _visited(port) as visits:
            with ThreadPoolExecutor(_CLIENTS) as clients:
                found = list(clients.map(lambda attack: _struck(target, attack), attacks))
            faults += _cleared(target, scratch)
        if process.poll() is not None:
            faults.append(f"the server ended with {process.returncode}")
        process.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
        process.wait(timeout=30)
    if not killed and process.returncode:
        faults.append(f"the server ended with {process.returncode}")
    said = log.read_text(encoding="utf-8", errors="replace").strip()
    left = sorted(path.name for path in scratch.iterdir())
    # What a killed one leaves is the next one's to remove.
    if left and not killed:
        faults.append(f"left behind: {', '.join(left[:5])}")
    if said:
        faults.append(f"its log says {said[:1500]!r}")
    log.unlink()
    where = f"server {number}"
    pages = f"{where}, {visits['visits']:,} visits, slowest {1000 * max(visits['slowest'].values()):.0f} ms"
    told = [Trial(where, fault, 0) for fault in faults]
    told.append(Trial(pages, "; ".join(visits["failures"][:5]), 0))
    for i, (attack, failures) in enumerate(zip(attacks, found, strict=True)):
        failure = f"{len(failures)} of {attack.times}: {failures[0]}" if failures else ""
        told.append(Trial(f"{where}, attack {i}: {attack.what}", failure, attack.times, attack.group))
    return told


def _struck(target: _Target, attack: Attack) -> list[str]:
    """What went wrong with an attack, each time."""
    if attack.times == 1:
        return [failure for failure in (_strike(target, attack),) if failure]
    with ThreadPoolExecutor(attack.times) as many:
        return [failure for failure in many.map(lambda _: _strike(target, attack), range(attack.times)) if failure]


def _cleared(target: _Target, scratch: Path) -> list[str]:
    """Cancel and delete every build; what still lies about that should not."""
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        ids = re.findall(rb'"id":"([0-9a-f]{12})"', target.ask(request("GET", "/api/builds")))
        for id_ in ids:
            target.ask(request("POST", f"/api/builds/{id_.decode()}/cancel"))
            target.ask(request("DELETE", f"/api/builds/{id_.decode()}"))
        if not ids:
            break
        time.sleep(0.2)
    names = [path.name for path in scratch.glob("rote-ui-*/*")]
    wrong = [name for name in names if not re.match(r"lock$|scratch-|upload-|report-", name)]
    most = {"upload-": 20, "report-": 5}
    wrong += [name for name in most if sum(one.startswith(name) for one in names) > most[name]]
    return [f"in its folder: {', '.join(wrong[:5])}"] if wrong else []


def _furnish(folder: Path) -> None:
    """Results and a figure to be asked about."""
    from rote.measurement import Cell, Journal

    (folder / "entry").mkdir(parents=True)
    (folder / "entry" / "entry.json").write_text('{"entry": "a", "title": "b"}', encoding="utf-8")
    cells = [Cell(n_heads=heads, d_model=4, context=2, vocab=30) for heads in (1, 2, 3, 4)]
    results = [{"status": "done", "capacity": 8 * cell.n_heads, "params": 9, "duration": 0.1} for cell in cells]
    with Journal(folder / "heads.db") as journal:
        journal.put("heads", cells, results)
