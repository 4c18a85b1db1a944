"""Each point of safety by itself, against a running explorer."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from explorer import Explorer
from rote.cli.main import run
from rote.data import read
from rote.errors import OutputError, RoteError
from rote.web.guard import CONTENT_POLICY, Guard, own_hosts
from rote.web.server import LOOPBACK, bind
from rote.web.store import MAX_UPLOAD_BYTES, MAX_UPLOAD_LINES, Store, clean_name


def test_it_listens_on_the_loopback_interface_only(explorer: Explorer) -> None:
    with bind(0) as listening:
        assert listening.getsockname()[0] == LOOPBACK == "127.0.0.1"
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in others - {"127.0.0.1", "127.0.1.1"}:
        with pytest.raises(OSError, match=r".*"):
            socket.create_connection((str(address), explorer.port), timeout=1).close()


def test_a_port_that_is_taken_is_refused_in_one_sentence(explorer: Explorer) -> None:
    with pytest.raises(OutputError, match="--port 0"):
        bind(explorer.port)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7683", "127.0.0.1.nip.io", "", "[::1]"])
def test_a_foreign_host_is_refused(explorer: Explorer, host: str) -> None:
    for path in ("/capacity", "/api/bounds", "/static/x/lib.js"):
        status, _, body = explorer.raw("GET", path, headers={"Host": host})
        assert status in (400, 421), path
        assert b"<html" not in body
    assert explorer.raw("GET", "/capacity", headers={"Host": f"localhost:{explorer.port}"})[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    ],
)
def test_a_foreign_origin_is_refused(explorer: Explorer, headers: dict[str, str]) -> None:
    for method, path in (
        ("POST", "/api/builds"),
        ("GET", "/api/models"),
        ("GET", "/api/grafts"),
        ("POST", "/api/grafts/0/speak"),
        ("POST", "/api/uploads?name=a.csv"),
    ):
        assert explorer.raw(method, path, b"{}" if method == "POST" else None, headers)[0] == 403
    own = {"Origin": explorer.address}
    assert explorer.raw("GET", "/api/models", headers=own)[0] == 200


def test_unusual_methods_and_websockets_are_refused(explorer: Explorer) -> None:
    assert explorer.raw("PUT", "/api/builds")[0] == 405
    assert Guard(None, own_hosts(1)).refusal("TRACE", {b"host": "localhost:1"}) is not None  # type: ignore[arg-type]
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "a"}
    assert explorer.raw("GET", "/capacity", headers=upgrade)[0] != 101


def test_every_answer_carries_the_policy(explorer: Explorer) -> None:
    for path in (
        "/capacity",
        "/ask",
        "/grafts",
        "/api/grafts",
        "/api/grafts/0",
        "/api/bounds",
        "/api/bounds?heads=x",
        "/nothing",
        "/static/x/none.js",
    ):
        _, headers, _ = explorer.raw("GET", path)
        assert headers["content-security-policy"] == CONTENT_POLICY, path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    assert explorer.raw("GET", "/capacity", headers={"Host": "evil.example"})[1]["content-security-policy"]
    assert "script-src 'self';" in CONTENT_POLICY


def test_uploads_are_limited_in_bytes(explorer: Explorer) -> None:
    before = set(explorer.scratch.rglob("*"))
    row = b"a,b\n" + b"x" * 1000 + b",y\n"
    found = explorer.upload("large.csv", row[:4] + b"x" * MAX_UPLOAD_BYTES + b",y\n")
    assert "20 MB" in found["error"]
    assert {p for p in explorer.scratch.rglob("*") if "upload" in p.name} <= before
    assert "error" not in explorer.upload("small.csv", row)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_uploads_are_limited_in_rows(explorer: Explorer, end: bytes) -> None:
    content = b"a,b" + end + b"".join(b"%d,1" % i + end for i in range(MAX_UPLOAD_LINES))
    assert len(content) < MAX_UPLOAD_BYTES
    assert f"{MAX_UPLOAD_LINES:,} lines" in explorer.upload("long.csv", content)["error"]


def test_requests_are_limited_too(explorer: Explorer) -> None:
    status, _, body = explorer.raw("POST", "/api/check", b'{"a":"' + b"x" * 300_000 + b'"}')
    assert status == 400
    assert b"bytes" in body
    for wrong in (b"", b"[]", b"nonsense", b"[" * 100_000, b'{"shipped": 3}', b'{"shipped": "no-such"}'):
        assert explorer.raw("POST", "/api/check", wrong)[0] == 400


@pytest.mark.parametrize(
    "content",
    [b"a,b\n1,2,3\n", b"a,b\n\xff,1\n", b"a,b\n\0,1\n", b'a,b\n"x,1\n', b"a,a\n1,2\n", b"", b"a,b\n", b"\n\n"],
)
def test_uploads_go_through_the_strict_reader(explorer: Explorer, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "facts.csv"
    file.write_bytes(content)
    with pytest.raises(RoteError) as refused:
        read(file)
    assert explorer.upload("facts.csv", content)["error"] == str(refused.value)


def test_contradictions_are_refused_by_the_checks(explorer: Explorer, tmp_path: Path) -> None:
    content = b"a,b\nx,1\nx,2\n"
    (tmp_path / "clash.csv").write_bytes(content)
    with pytest.raises(RoteError) as refused:
        read(tmp_path / "clash.csv")
    made = explorer.upload("clash.csv", content)
    assert explorer.ask("/api/check", {"upload": made["id"]})["error"] == str(refused.value)
    assert explorer.ask("/api/check", {"upload": made["id"], "on_conflict": "first"})["table"]["n_facts"] == 1


@pytest.mark.parametrize(
    "path",
    [
        "/static/x/..%2Fguard.py",
        "/static/x/../../guard.py",
        "/static/..%2f..%2f..%2fetc%2fpasswd/x",
        "/api/runs/..%2F..%2Fheads.db",
        "/api/runs/heads.db",
        "/api/entries/out%2Fdana2025%2Fexp1",
        "/api/models/%2Fetc",
        "/api/grafts/..%2F..%2Fetc",
        "/api/builds/..%2F..%2Fetc%2Fpasswd/zip",
        "/report/..%2F..%2Fetc%2Fpasswd",
        "/api/runs/%00",
    ],
)
def test_no_path_of_a_request_reaches_the_files(explorer: Explorer, path: str) -> None:
    status, _, body = explorer.raw("GET", path)
    assert status in (400, 404)
    assert b"root:" not in body
    assert b"SQLite" not in body


def test_sources_are_names_and_ids_and_never_paths(explorer: Explorer) -> None:
    csv = str(explorer.folder / "x.csv")
    Path(csv).write_text("a,b\n1,2\n", encoding="utf-8")
    for record in ({"shipped": csv}, {"upload": csv}, {"upload": "../x"}, {"shipped": "elements", "upload": csv}, {}):
        assert "error" in explorer.ask("/api/check", record)
        assert "error" in explorer.ask("/api/builds", record)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("../../etc/passwd.csv", "passwd.csv"),
        ("C:\\facts\\a.csv", "a.csv"),
        ("a\u202egnp.csv", "agnp.csv"),
        ("..", "facts"),
        ("", "facts"),
        ("x" * 300 + ".csv", "x" * 76 + ".csv"),
    ],
)
def test_names_of_uploads_are_cleaned(given: str, shown: str) -> None:
    assert clean_name(given) == shown


def test_uploads_of_other_endings_are_refused(explorer: Explorer) -> None:
    for name in ("a.exe", "a.csv.gz", "a", "a.parquet", "a.html"):
        assert ".csv, .tsv, .jsonl" in explorer.upload(name, b"a,b\n1,2\n")["error"]


def test_old_uploads_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rote.web.store import MAX_UPLOADS

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = Store()
    ids: list[str] = []
    for _ in range(MAX_UPLOADS + 5):
        id_, path = store.begin_upload()
        path.write_bytes(b"a")
        store.keep_upload(store.named_upload(id_, "a.csv", 1, 0), frozenset(ids[:1]))
        ids.append(id_)
    assert len(list(store.root.glob("upload-*"))) == MAX_UPLOADS
    assert store.upload(ids[0])
    with pytest.raises(RoteError, match="drop it again"):
        store.upload(ids[1])
    store.close()
    assert not list(tmp_path.glob("rote-ui-*"))


def _alive(number: int) -> bool:
    stat = Path(f"/proc/{number}/stat")
    return stat.exists() and stat.read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] != "Z"


def _gone(numbers: list[int], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(_alive(number) for number in numbers):
            return True
        time.sleep(0.05)
    return False


def _workers(explorer: Explorer) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(explorer.process.pid)], capture_output=True, check=False)
    return [int(word) for word in found.stdout.split()]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_behind(short_explorer: Explorer, how: signal.Signals) -> None:
    made = short_explorer.upload("a.csv", b"a,b,c\nk,l,3\nm,n,4\n")
    id_ = short_explorer.ask("/api/builds", {"upload": made["id"], "with": "dana2025_cor1"})["id"]
    assert short_explorer.finished(id_)["state"] == "done"
    # Another one, so that a worker is in the middle of something.
    short_explorer.ask("/api/builds", {"shipped": "countries"})
    assert list(short_explorer.scratch.glob("rote-ui-*/build-*"))
    workers = _workers(short_explorer)
    assert len(workers) == 2
    short_explorer.process.send_signal(how)
    assert short_explorer.process.wait(timeout=20) == 0
    assert not list(short_explorer.scratch.glob("rote-ui-*"))
    assert _gone(workers)


def test_what_a_killed_explorer_left_is_removed_at_the_next_start(
    short_explorer: Explorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_explorer.upload("a.csv", b"a,b\n1,2\n")
    workers = _workers(short_explorer)
    short_explorer.process.send_signal(signal.SIGKILL)
    short_explorer.process.wait()
    assert _gone(workers), "workers end with their server"
    assert list(short_explorer.scratch.glob("rote-ui-*"))
    monkeypatch.setattr("tempfile.tempdir", str(short_explorer.scratch))
    living = Store()
    (short_explorer.scratch / "rote-ui-unknown").mkdir()
    store = Store()
    names = {path.name for path in short_explorer.scratch.glob("rote-ui-*")}
    assert names == {"rote-ui-unknown", living.root.name, store.root.name}
    living.close()
    store.close()
    assert {path.name for path in short_explorer.scratch.glob("rote-ui-*")} == {"rote-ui-unknown"}


def test_the_command_refuses_in_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["ui", "--dir", str(tmp_path / "nowhere"), "--no-browser"]) == 2
    assert "--dir" in capsys.readouterr().err
    assert run(["ui", "--host", "0.0.0.0"]) == 2


def test_answers_are_json_that_no_browser_takes_for_a_page(explorer: Explorer) -> None:
    made = explorer.upload("%3Cscript%3E.csv", b"<img src=x>,b,c\n<script>,1,2\n")
    assert made["columns"][0] == "<img src=x>"
    _, headers, body = explorer.raw("POST", "/api/check", json.dumps({"upload": made["id"]}).encode())
    assert headers["content-type"] == "application/json"
    assert b"<script>" in body
