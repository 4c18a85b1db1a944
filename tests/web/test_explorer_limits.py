"""The explorer under requests that are malformed, slow or many: it refuses in a sentence, and nobody else waits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.requests import ClientDisconnect, Request

from explorer import Explorer, make_folder, run_explorer
from rote.errors import DataError, RoteError
from rote.web import desk as desks
from rote.web.answers import file_answer
from rote.web.desk import Busy, Desk, Places, Reader
from rote.web.figures import read_object
from rote.web.jobs import MOST_KEPT, Build, Builds
from rote.web.pool import Worker
from rote.web.scan import Folder
from rote.web.store import MAX_REPORTS, MAX_UPLOAD_COLUMNS, Store

HANG = 30.0
"""Far more than anything here takes."""
DEEP = "/api/bounds/all?layers=1999&d_mlp=9001&axis=layers"


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """In a thread of its own: the browser of other tests keeps a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def sent(explorer: Explorer, request: bytes, *, end: bool = False) -> bytes:
    """Everything that comes back for these bytes, until the server closes."""
    with socket.create_connection(("127.0.0.1", explorer.port), timeout=HANG) as line:
        line.sendall(request.replace(b"HOST", b"127.0.0.1:%d" % explorer.port))
        if end:
            line.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := line.recv(1 << 16):
            answer += piece
        return answer


@pytest.mark.parametrize(
    "path",
    [
        "/api/bounds?heads=--5",
        "/api/bounds?heads=-",
        "/api/bounds?heads=%C2%B2",
        "/api/bounds?heads=%D9%A3",
        "/api/bounds?d_model=9e9",
        "/api/plan?facts=--5",
        "/api/plan?vocab=%00",
        "/api/bounds/all?heads=--5",
        "/api/runs/x/fit?x=--5",
        "/api/models/x/complete?position=--5",
    ],
)
def test_odd_queries_are_refused_in_a_sentence(explorer: Explorer, path: str) -> None:
    status, _, body = explorer.raw("GET", path)
    assert status == 400
    assert json.loads(body)["error"].endswith(".")


@pytest.mark.parametrize("origin", ["http://[::1", "http://[", "://", "http://\x80", "http://127.0.0.1:99999999"])
def test_odd_origins_are_refused(explorer: Explorer, origin: str) -> None:
    assert explorer.raw("GET", "/capacity", headers={"Origin": origin})[0] == 403


@pytest.mark.parametrize(
    "body",
    [
        rb'{"shipped": "\ud800"}',
        rb'{"shipped": "elements", "with": "\udfff"}',
        b'{"shipped": "elements", "options": {"epsilon": 1' + b"0" * 400 + b"}}",
        b'{"shipped": "elements", "options": {"epsilon": NaN}}',
        b'{"shipped": "elements", "seed": Infinity}',
        b'{"shipped": "elements", "seed": ' + b"9" * 5000 + b"}",
        b"\xff\xfe",
    ],
)
def test_odd_bodies_are_refused_in_a_sentence(explorer: Explorer, body: bytes) -> None:
    for path in ("/api/check", "/api/builds"):
        status, _, answer = explorer.raw("POST", path, body)
        assert status == 400, (path, answer)
        assert json.loads(answer)["error"].endswith(".")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nHost: HOST\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: HOST\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: HOST\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /api/check HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: gzip\r\n\r\n", 411),
        (b"POST /api/check HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 40_000, 411),
    ],
)
def test_what_is_no_http_is_refused_in_a_sentence(explorer: Explorer, request_: bytes, status: int) -> None:
    head, _, body = sent(explorer, request_).partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 %d " % status, b"HTTP/1.1 400 "))
    assert re.fullmatch(rb"rote: .+\.\n", body)
    assert b"content-security-policy" in head.lower()


def test_what_is_not_there_is_said_in_a_sentence(explorer: Explorer) -> None:
    for method, path, status in (("GET", "/no", 404), ("GET", "/capacity/", 404), ("DELETE", "/capacity", 405)):
        found, _, body = explorer.raw(method, path)
        assert (found, body.startswith(b"rote: "), body.endswith(b".\n")) == (status, True, True)


HALVES = (
    b"",
    b"GET /capac",
    b"GET /capacity HTTP/1.1\r\nHost: HOST\r\n",
    b"POST /api/check HTTP/1.1\r\nHost: HOST\r\nContent-Length: 100\r\n\r\n{",
    b"POST /api/uploads?name=a.csv HTTP/1.1\r\nHost: HOST\r\nContent-Length: 100\r\n\r\na,b\n",
    b"GET /capacity HTTP/1.1\r\nHost: HOST\r\nContent-Length: 100\r\n\r\n",
)


def test_half_a_request_is_dropped(explorer: Explorer) -> None:
    with ThreadPoolExecutor(len(HALVES)) as many:
        answers = list(many.map(lambda start: sent(explorer, start), HALVES))
    # The last one wants a page, and gets it before it is dropped.
    assert [answer[:12] for answer in answers] == [b""] * 5 + [b"HTTP/1.1 200"]


def dribbled(explorer: Explorer, start: bytes) -> None:
    """Send byte after byte until the server has had enough."""
    with socket.create_connection(("127.0.0.1", explorer.port), timeout=HANG) as line:
        line.sendall(start)
        end = time.monotonic() + HANG
        while time.monotonic() < end:
            line.sendall(b"a")
            time.sleep(0.1)


def test_a_request_that_dribbles_in_is_dropped(explorer: Explorer) -> None:
    head = b"POST /api/uploads?name=a.csv HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % explorer.port
    with ThreadPoolExecutor(2) as many:
        sending = [many.submit(dribbled, explorer, start) for start in (head, head + b"Content-Length: 9999\r\n\r\n")]
    assert all(isinstance(one.exception(), OSError) for one in sending)


def test_somebody_who_leaves_while_sending_is_no_fault(tmp_path: Path) -> None:
    make_folder(tmp_path / "folder")
    with run_explorer(tmp_path / "folder", tmp_path / "scratch", tmp_path / "log") as running:
        for path in (b"/api/uploads?name=a.csv", b"/api/check"):
            head = b"POST " + path + b" HTTP/1.1\r\nHost: HOST\r\nContent-Length: 100\r\n\r\n{"
            assert sent(running, head, end=True) == b""
        assert running.raw("GET", "/capacity")[0] == 200
        assert not list(running.scratch.glob("rote-ui-*/upload-*"))
    assert (tmp_path / "log").read_bytes() == b""
    assert not list((tmp_path / "scratch").iterdir())


WIDE = [f"c{i}" for i in range(MAX_UPLOAD_COLUMNS + 1)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("wide.csv", ",".join(WIDE) + "\n" + ",".join(WIDE) + "\n"),
        ("wide.csv", "\n\n" + ",".join(f'"{one}"' for one in WIDE) + "\r\n"),
        ("wide.tsv", "\t".join(WIDE) + "\r" + "\t".join(WIDE)),
        ("wide.jsonl", json.dumps(dict.fromkeys(WIDE, 1)) + "\n"),
    ],
)
def test_uploads_are_limited_in_columns(explorer: Explorer, name: str, content: str) -> None:
    said = explorer.upload(name, content.encode())["error"]
    assert said.startswith(f"{name} has more than 1,000 columns")
    assert not list(explorer.scratch.glob("rote-ui-*/upload-*.wide"))


def test_uploads_are_limited_in_their_first_row(explorer: Explorer) -> None:
    assert "a first row of more than 1 MB" in explorer.upload("one.csv", b"x" * 1_500_000)["error"]
    assert "a first row of more than 1 MB" in explorer.upload("one.csv", b'a,"' + (b"x" * 30 + b"\n") * 50_000)["error"]


def test_a_comma_in_quotes_makes_no_column(explorer: Explorer) -> None:
    made = explorer.upload("quoted.csv", b'"' + b"," * 5000 + b'",b\n1,2\n')
    assert len(made["columns"]) == 2
    assert (
        len(explorer.upload("full.csv", (",".join(WIDE[:-1]) + "\n" + ",".join(WIDE[:-1])).encode())["columns"]) == 1000
    )


def test_pages_do_not_wait_behind_questions(tmp_path: Path) -> None:
    make_folder(tmp_path / "folder")
    with run_explorer(tmp_path / "folder", tmp_path / "scratch") as running:
        wide = (",".join(f"c{i}" for i in range(60_000)) + "\n").encode()

        def ask(i: int) -> tuple[int, dict[str, str], bytes]:
            return running.raw("POST", "/api/uploads?name=w.csv", wide) if i % 2 else running.raw("GET", DEEP)

        with ThreadPoolExecutor(60) as many:
            asked = [many.submit(ask, i) for i in range(60)]
            began = time.monotonic()
            for _ in range(20):
                assert running.raw("GET", "/capacity")[0] == 200
                assert running.raw("GET", "/static/x/lib.js")[0] == 200
            assert time.monotonic() - began < HANG
            answers = [one.result(timeout=2 * HANG) for one in asked]
        assert {status for status, _, _ in answers} <= {200, 400, 503}
        busy = [(headers, body) for status, headers, body in answers if status == 503]
        assert busy
        for headers, body in busy:
            assert headers["retry-after"] == "5"
            assert "try again" in json.loads(body)["error"]


class _Client:
    """A request as a desk sees it: somebody who may go."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}


def client() -> Request:
    return cast(Request, _Client())


@pytest.fixture
def small() -> Iterator[Desk]:
    """One hand, two places."""
    made = Desk("test", hands=1, places=2)
    yield made
    made.close()


def test_a_full_desk_refuses_at_once(small: Desk) -> None:
    async def tried() -> None:
        free = threading.Event()
        inside = [asyncio.create_task(small.do(client(), free.wait)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="2 questions are waiting"):
            await small.do(client(), free.wait)
        free.set()
        assert await asyncio.gather(*inside) == [True, True]
        assert await small.do(client(), lambda: 3) == 3

    run(asyncio.wait_for(tried(), HANG))


def test_nobody_waits_long_for_a_turn(small: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "PATIENCE", 0.1)

    async def tried() -> None:
        free = threading.Event()
        first = asyncio.create_task(small.do(client(), free.wait))
        await asyncio.sleep(0.05)
        with pytest.raises(Busy, match="other questions"):
            await small.do(client(), free.wait)
        free.set()
        assert await first

    run(asyncio.wait_for(tried(), HANG))


def test_work_for_a_client_that_has_gone_is_ended(small: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "GRACE", 0.05)

    async def tried() -> None:
        free, done = threading.Event(), []
        running, waiting = client(), client()
        first = asyncio.create_task(small.do(running, free.wait, free.set))
        second = asyncio.create_task(small.do(waiting, lambda: done.append(1)))
        await asyncio.sleep(0.05)
        for one in (waiting, running):
            cast(_Client, one).left.set()
        for task in (second, first):
            with pytest.raises(ClientDisconnect):
                await task
        assert free.is_set()
        assert done == []
        await asyncio.sleep(0.2)
        # Both places are free again.
        assert await asyncio.gather(*(small.do(client(), lambda: 5) for _ in range(2))) == [5, 5]

    run(asyncio.wait_for(tried(), HANG))


def test_a_process_is_ended_only_for_whom_it_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(desks, "GRACE", 0.2)
    reader = Reader(Worker("test", tmp_path / "scratch"))

    async def tried() -> None:
        assert (await reader.ask(client(), "bounds", {"heads": "3"}, seconds=HANG))["now"] == 3
        first = reader.worker._process
        reader.worker.stop(object())
        assert (await reader.ask(client(), "bounds", {"heads": "4"}, seconds=HANG))["now"] == 4
        assert reader.worker._process is first
        (tmp_path / "scratch" / "left").write_text("by it", encoding="ascii")
        leaving = client()
        deep = {"layers": "1999", "d_mlp": "9001", "axis": "layers"}
        task = asyncio.create_task(reader.ask(leaving, "bounds", deep, seconds=HANG))
        await asyncio.sleep(0.3)
        cast(_Client, leaving).left.set()
        with pytest.raises(ClientDisconnect):
            await task
        assert (await reader.ask(client(), "bounds", {"heads": "5"}, seconds=HANG))["now"] == 5
        assert reader.worker._process is not first
        assert not list((tmp_path / "scratch").iterdir())

    try:
        run(asyncio.wait_for(tried(), 3 * HANG))
    finally:
        reader.close()


def test_places_are_given_back() -> None:
    places = Places(1, "files coming in")
    with places.one(), pytest.raises(Busy, match="1 files coming in"), places.one():
        pass
    with places.one():
        pass


def test_waking_up_twice_is_waking_up_once() -> None:
    worker = Worker("test")
    before = threading.active_count()
    for _ in range(50):
        worker.warm()
    assert threading.active_count() <= before + 1
    worker.close()


def test_a_deleted_build_leaves_nothing(explorer: Explorer) -> None:
    def lying() -> set[Path]:
        return {path for path in explorer.scratch.glob("rote-ui-*/*") if not path.name.startswith(("scratch-", "up"))}

    before = lying()
    id_ = explorer.ask("/api/builds", {"shipped": "elements", "with": "dana2025_cor1"})["id"]
    assert explorer.finished(id_)["state"] == "done"
    assert explorer.raw("GET", f"/api/builds/{id_}/zip")[0] == 200
    assert lying() != before
    assert explorer.ask(f"/api/builds/{id_}", method="DELETE") == {}
    assert lying() == before
    failed = explorer.ask("/api/builds", {"shipped": "elements", "with": "mlp_fit", "options": {"rank1_qk": True}})[
        "id"
    ]
    assert explorer.finished(failed)["state"] == "failed"
    slow = explorer.ask("/api/builds", {"shipped": "countries"})["id"]
    time.sleep(0.5)
    explorer.ask(f"/api/builds/{slow}/cancel", {})
    assert explorer.finished(slow)["state"] == "cancelled"
    assert lying() == before


class _NoWorker(Worker):
    """Builds nothing, at once."""

    def call(self, task: str, args: Any, **more: Any) -> Any:
        home = Path(args["folder"]).parent
        home.mkdir()
        (home / "model.zip").write_bytes(b"zip")
        return {"certificate": {}, "sheet": {}}


def test_the_oldest_builds_make_room(tmp_path: Path) -> None:
    builds = Builds(_NoWorker("none"))
    for i in range(MOST_KEPT + 5):
        builds.add(Build(str(i), "t", {}, "c", tmp_path / f"build-{i}", {}))
        end = time.monotonic() + HANG
        while builds.get(str(i)).state != "done" and time.monotonic() < end:
            time.sleep(0.001)
    assert [build.id for build in builds.finished()] == [str(i) for i in range(5, MOST_KEPT + 5)]
    assert len(list(tmp_path.iterdir())) == MOST_KEPT
    builds.close()


def test_reports_are_replaced_and_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = Store()
    for i in [0, 0, *range(MAX_REPORTS + 2)]:
        report = store.begin_report([f"source {i}"])
        report.page.write_text("page", encoding="ascii")
        store.keep_report(report)
        assert store.report(report.id) == report
    assert len(list(store.root.glob("report-*"))) == MAX_REPORTS
    store.close()


def test_a_new_report_replaces_the_old_one(explorer: Explorer) -> None:
    db = next(one["id"] for one in explorer.ask("/api/runs")["results"] if one["name"] == "heads.db")
    first, second = (explorer.ask("/api/report", {"ids": [db]})["address"] for _ in range(2))
    assert explorer.raw("GET", first)[0] == 400
    assert explorer.raw("GET", second)[0] == 200
    assert [path.name for path in explorer.scratch.glob("rote-ui-*/report-*/*")] == ["report.html"]


def test_a_file_that_is_gone_is_refused_and_an_open_one_is_sent(tmp_path: Path) -> None:
    with pytest.raises(RoteError, match="removed"):
        file_answer(tmp_path / "none.zip", "application/zip")
    (tmp_path / "a.zip").write_bytes(b"content")
    answer = cast(Any, file_answer(tmp_path / "a.zip", "application/zip"))
    (tmp_path / "a.zip").unlink()

    async def read() -> bytes:
        return b"".join([piece async for piece in answer.body_iterator])

    assert run(read()) == b"content"


def test_names_that_are_no_unicode_are_listed(tmp_path: Path) -> None:
    try:
        (tmp_path / "a\udcff.toml").write_text("", encoding="ascii")
    except OSError:
        pytest.skip("this file system takes only Unicode")
    (item,) = Folder(tmp_path).look()
    assert Folder(tmp_path).get("grid", item.id).path.is_file()


@pytest.mark.parametrize("number", ["NaN", "1e999", "1" + "0" * 400])
def test_a_record_with_a_number_that_is_none_is_refused_by_name(tmp_path: Path, number: str) -> None:
    (tmp_path / "a.json").write_text(f'{{"a": {number}}}', encoding="ascii")
    with pytest.raises(DataError, match=r"^a\.json is no valid JSON"):
        read_object(tmp_path / "a.json")


def test_a_model_with_an_odd_certificate_is_not_offered(explorer: Explorer) -> None:
    folder = explorer.folder / "odd"
    folder.mkdir()
    (folder / "tokenizer.json").write_text("{}", encoding="ascii")
    (folder / "certificate.json").write_text(r'{"facts": NaN, "params": 1e999, "dtype": "\ud800"}', encoding="ascii")
    assert "odd" not in [one["name"] for one in explorer.ask("/api/models")["models"]]


def test_the_end_waits_for_nobody(tmp_path: Path) -> None:
    make_folder(tmp_path / "folder")
    with run_explorer(tmp_path / "folder", tmp_path / "scratch", tmp_path / "log") as running:
        lines = [socket.create_connection(("127.0.0.1", running.port), timeout=HANG) for _ in range(4)]
        host = b" HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % running.port
        lines[0].sendall(b"GET " + DEEP.encode() + host + b"\r\n")
        lines[1].sendall(b"POST /api/uploads?name=a.csv" + host + b"Content-Length: 100\r\n\r\na,b")
        lines[2].sendall(b"GET /capacity" + host + b"\r\n")
        lines[3].sendall(b"nonsense\r\n\r\n")
        time.sleep(1)
        running.process.terminate()
        assert running.process.wait(timeout=HANG) == 0
        for line in lines:
            line.close()
    assert (tmp_path / "log").read_bytes() == b""
    assert not list((tmp_path / "scratch").iterdir())


def test_many_who_keep_it_waiting_keep_nobody_out(explorer: Explorer) -> None:
    lines = [socket.create_connection(("127.0.0.1", explorer.port), timeout=HANG) for _ in range(300)]
    try:
        for line in lines:
            with contextlib.suppress(OSError):
                line.sendall(b"GET /capac")
        for _ in range(20):
            assert explorer.raw("GET", "/capacity")[0] == 200
    finally:
        for line in lines:
            line.close()
